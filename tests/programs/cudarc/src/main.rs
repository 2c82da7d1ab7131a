//! Launches, copies and waits through cudarc; prints what it did.
use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

const PTX: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry scale(.param .u64 a) { ret; }";
const LAUNCHES: usize = 53;
const COPIES: usize = 11;
const FLOATS: usize = 4099;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let scale = context.load_module(Ptx::from_src(PTX))?.load_function("scale")?;
    let mut data = stream.alloc_zeros::<f32>(FLOATS)?;
    let host = vec![1.0f32; FLOATS];
    for _ in 0..COPIES {
        stream.memcpy_htod(&host, &mut data)?;
    }
    for _ in 0..LAUNCHES {
        unsafe { stream.launch_builder(&scale).arg(&mut data).launch(LaunchConfig::for_num_elems(FLOATS as u32))? };
    }
    stream.synchronize()?;
    println!("{{\"launches\": {LAUNCHES}, \"kernel\": \"scale\", \"HtoD\": {}}}", COPIES * FLOATS * 4);
    Ok(())
}
