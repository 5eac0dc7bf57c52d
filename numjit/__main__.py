"""The command line, ``python -m numjit``: parses arguments and hands over to the demo or the report."""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments
        The command line without the program's name; None reads ``sys.argv``.

    Returns
    -------
    int
        The exit status: 0 when all is well, 1 when the command found a fault, 2 for a command line
        that cannot be understood.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command == "demo":
        from numjit import demo

        return demo.run(options.output, options.device)
    if options.command == "info":
        from numjit.tools import info

        return info.run()
    if options.command == "tune":
        from numjit.tools import tune

        return tune.run(options.functor, options.shape, options.dtype)
    if options.command == "warmup":
        from numjit.ahead import command

        return command.run(
            options.functor,
            targets=[*options.cc, *(["cpu"] if options.cpu else [])],
            dtypes=options.dtypes,
            layouts=options.layouts,
            jobs=options.jobs,
        )
    parser.print_help(sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m numjit",
        description="numjit turns a function of one element into an operation over whole tensors.",
    )
    parser.add_argument("--version", action=_Version, help="print numjit's version and leave")
    commands = parser.add_subparsers(dest="command", title="commands", metavar="{demo,info,tune,warmup}")

    demo = commands.add_parser(
        "demo",
        help="tone-map a photograph, check the result against torch and time it",
        description="Tone-map a photograph with a functor written in Python and in CUDA C++, check both "
        "against torch, save the picture before and after, and print a table of times.",
    )
    demo.add_argument(
        "--output",
        metavar="DIR",
        type=pathlib.Path,
        default=pathlib.Path("demo-output"),
        help="folder for the picture, made if missing (default: %(default)s)",
    )
    demo.add_argument(
        "--device",
        choices=["auto", "cpu", "cuda"],
        default="auto",
        help="where to run; auto takes the GPU if torch has one (default: %(default)s)",
    )

    commands.add_parser(
        "info",
        help="show versions, GPUs, the toolchain and the cache, and what is missing",
        description="Show versions, GPUs, the toolchain and the cache. The exit status is 1 if something "
        "that this machine needs is missing; the last lines then say what to do.",
    )

    tune = commands.add_parser(
        "tune",
        help="time launch alternatives of a functor on this GPU and remember the fastest",
        description="Time launch alternatives of a functor on this machine's GPU, print them, and remember "
        "the fastest for functors made with autotune=True. Results never change.",
    )
    tune.add_argument("functor", metavar="MODULE:NAME", help="an operation made by numjit.elementwise")
    tune.add_argument(
        "--shape", nargs="+", default=["16777216"], help="shapes such as 8192,8192 (default: %(default)s)"
    )
    tune.add_argument(
        "--dtype", nargs="+", default=["float32"], help="dtypes of the operands (default: %(default)s)"
    )
    _add_warmup(commands)
    return parser


def _add_warmup(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    warmup = commands.add_parser(
        "warmup",
        help="compile into the cache ahead of the first call, for GPUs that need not be here",
        description="Compile the kernels of functors into the cache. The exit status is 1 if something did "
        "not compile, and 2 if the command line names what does not exist.",
    )
    warmup.add_argument(
        "functor", nargs="+", metavar="MODULE:NAME", help="operations made by numjit.elementwise"
    )
    warmup.add_argument(
        "--cc",
        nargs="+",
        default=[],
        metavar="CC",
        help="compute capabilities such as 9.0; no GPU is needed (default: those of this machine's GPUs)",
    )
    warmup.add_argument("--cpu", action="store_true", help="build the CPU loops of the functors (as well)")
    warmup.add_argument(
        "--dtypes",
        nargs="+",
        default=[],
        metavar="DTYPE",
        help="dtypes of the operands (default: float32 float16 bfloat16)",
    )
    warmup.add_argument(
        "--layouts",
        nargs="+",
        metavar="LAYOUT",
        help="contiguous, row, column, transposed, sliced, strided, unaligned: what the last operand is "
        "(default: contiguous)",
    )
    warmup.add_argument("--jobs", type=int, metavar="N", help="threads (default: one for each usable core)")


class _Version(argparse.Action):
    """Looks the version up only when asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, **keywords: object) -> None:
        super().__init__(option_strings, dest, nargs=0, help=str(keywords.get("help", "")))

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from numjit.tools import info

        print(f"numjit {info.numjit_version()}")
        parser.exit()


if __name__ == "__main__":
    sys.exit(main())
