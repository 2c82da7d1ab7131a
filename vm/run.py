"""Boot other kernels and see whether the recorder is exact there: ``make kernels``.

usage: run.py [--quick] [--storms SECONDS] [--only TEXT] [--again]
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from vm import BUILD, cells, initramfs, machine, packages, report, root
from vm.catalog import Kernel
from vm.verdict import Verdict, judge


def _prepared(kernels: list[Kernel]) -> dict[str, packages.Unpacked]:
    found = {}
    for kernel in dict.fromkeys(kernels):
        try:
            found[kernel.name] = packages.unpack(kernel)
            initramfs.build(found[kernel.name])
        except packages.Unreachable as error:
            print(f"kernels: skipped {kernel.name} ({kernel.distribution}): {error}", flush=True)
    return found


def _boot(cell: cells.Cell, kernel: packages.Unpacked, image: Path) -> Verdict:
    boot = machine.Boot(
        kernel.image,
        initramfs.build(kernel),
        image,
        {"do": list(cell.do), **cell.job},
        cell.command_line,
        cell.cpus,
        cell.seconds,
    )
    name = re.sub(r"[^\w.]+", "-", cell.name)
    outcome = machine.run(boot, name)
    verdict = judge(cell, kernel.release, outcome)
    (BUILD / "runs" / f"{name}.json").write_text(json.dumps(outcome.result, indent=1))
    mark = "ok " if verdict.good else "BAD"
    print(f"{mark} {cell.name} ({kernel.release}), {outcome.seconds:.0f} s", flush=True)
    for words in verdict.words if not verdict.good else ():
        print(f"    {words[:1500]}", flush=True)
    return verdict


def _run(wanted: list[cells.Cell]) -> Iterator[Verdict]:
    """Cells of one CPU in pairs, the others alone; one that failed once more by itself."""
    kernels = _prepared([cell.kernel for cell in wanted])
    image = root.build_image()
    failed: list[cells.Cell] = []
    wanted = [cell for cell in wanted if cell.kernel.name in kernels]
    for cpus, at_once in ((1, 2), (2, 1)):
        chosen = [cell for cell in wanted if cell.cpus == cpus]
        with ThreadPoolExecutor(at_once) as pool:
            verdicts = pool.map(lambda cell: _boot(cell, kernels[cell.kernel.name], image), chosen)
            for cell, verdict in zip(chosen, verdicts, strict=True):
                if verdict.good:
                    yield verdict
                else:
                    failed.append(cell)
    for cell in failed:
        verdict = _boot(cell, kernels[cell.kernel.name], image)
        if verdict.good:
            print(f"FLAKY {cell.name}", flush=True)
        yield verdict


def main() -> int:
    """Run the cells that were asked for; 1 if one of them is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="objects everywhere, one recording")
    parser.add_argument("--storms", type=float, metavar="SECONDS", help="threads without end")
    parser.add_argument("--only", default="", metavar="TEXT", help="cells whose name contains this")
    parser.add_argument("--again", action="store_true", help="cells that did not hold last time")
    args = parser.parse_args()
    began = time.monotonic()
    if args.storms:
        chosen = cells.storms(args.storms)
    else:
        chosen = cells.quick() if args.quick else cells.matrix()
    wanted = [cell for cell in chosen if args.only in cell.name]
    if args.again:
        wanted = [cell for cell in wanted if not report.held(cell.name)]
    verdicts = []
    for verdict in _run(wanted):
        verdicts.append(verdict)
        # One by one: a run that is interrupted has not run for nothing.
        if not args.quick:
            report.keep(verdict)
    bad = [verdict for verdict in verdicts if not verdict.good]
    minutes = (time.monotonic() - began) / 60
    print(f"{len(verdicts) - len(bad)} passed, {len(bad)} failed")
    print(f"kernels: {minutes:.0f} minutes", file=sys.stderr)
    if not args.quick:
        report.PAGE.write_text(report.page())
    return 1 if bad or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
