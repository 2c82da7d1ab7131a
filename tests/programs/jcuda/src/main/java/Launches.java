import jcuda.Pointer;
import jcuda.Sizeof;
import jcuda.driver.CUcontext;
import jcuda.driver.CUdevice;
import jcuda.driver.CUdeviceptr;
import jcuda.driver.CUfunction;
import jcuda.driver.CUmodule;
import jcuda.driver.JCudaDriver;

/** Launches, copies and waits through JCuda; prints what it did. */
public class Launches {
    private static final int LAUNCHES = 53;
    private static final int COPIES = 11;
    private static final int FLOATS = 4099;
    private static final String PTX =
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry scale(.param .u64 a) { ret; }\0";

    public static void main(String[] words) {
        JCudaDriver.setExceptionsEnabled(true);
        JCudaDriver.cuInit(0);
        CUdevice device = new CUdevice();
        JCudaDriver.cuDeviceGet(device, 0);
        CUcontext context = new CUcontext();
        JCudaDriver.cuCtxCreate(context, 0, device);
        CUmodule module = new CUmodule();
        JCudaDriver.cuModuleLoadData(module, PTX.getBytes());
        CUfunction scale = new CUfunction();
        JCudaDriver.cuModuleGetFunction(scale, module, "scale");
        CUdeviceptr data = new CUdeviceptr();
        JCudaDriver.cuMemAlloc(data, (long) FLOATS * Sizeof.FLOAT);
        for (int i = 0; i < COPIES; i++) {
            JCudaDriver.cuMemcpyHtoD(data, Pointer.to(new float[FLOATS]), (long) FLOATS * Sizeof.FLOAT);
        }
        Pointer arguments = Pointer.to(Pointer.to(data));
        for (int i = 0; i < LAUNCHES; i++) {
            JCudaDriver.cuLaunchKernel(scale, 17, 1, 1, 256, 1, 1, 0, null, arguments, null);
        }
        JCudaDriver.cuCtxSynchronize();
        System.out.printf("{\"launches\": %d, \"kernel\": \"scale\", \"HtoD\": %d}%n",
            LAUNCHES, COPIES * FLOATS * Sizeof.FLOAT);
    }
}
