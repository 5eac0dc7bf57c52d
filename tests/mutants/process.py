"""Faults of threads, signals, forks and the interpreter's end."""

from __future__ import annotations

from tests.mutants import Mutant

__all__ = ["MUTANTS"]

_TESTS = "tests/cases/test_apart_and_pool.py"

MUTANTS = [
    Mutant(
        "B19 what numba-cuda warns of when it is imported ends a call",
        "numjit/ground/numba_ready.py",
        "        with _own_warnings_ignored():\n",
        "        with contextlib.nullcontext():\n",
        "tests/unit/test_beside_and_collector_and_numba_ready.py::test_a_module_of_numbas_that_warns_is_imported_where_warnings_are_errors",
    ),
    Mutant(
        "D2 an interrupted call does not wait for its threads",
        "numjit/cpu/pool.py",
        """            job.is_closed = True
            _acquire(job.idle, 1)
""",
        """            if sys.exc_info()[0] is None:
                job.is_closed = True
                _acquire(job.idle, 1)
""",
        f"{_TESTS}::test_interrupted_large_calls_write_to_no_memory_but_their_own",
    ),
    Mutant(
        "D3 a call at the end waits for threads that are no more",
        "numjit/cpu/pool.py",
        """                except IndexError:
                    break
                run(start, stop)
        finally:""",
        """                except IndexError:
                    break
                run(start, stop)
                break
        finally:""",
        f"{_TESTS}::test_without_threads_a_call_computes_all_by_itself",
    ),
    Mutant(
        "D6 compilations run where signals reach them",
        "numjit/ground/apart.py",
        """    if getattr(_thread, "inside", False) or _must_stay():
        return work()
    task = Task(work)""",
        """    if work is not None:
        return work()
    task = Task(work)""",
        f"{_TESTS}::test_interrupted_first_calls_leave_the_process_whole[cpu-python] "
        f"{_TESTS}::test_interrupted_first_calls_leave_the_process_whole[9.0-python] "
        f"{_TESTS}::test_a_functor_called_in_the_midst_of_its_own_compilation_says_so "
        f"{_TESTS}::test_a_signal_handler_calls_the_functor_that_is_being_compiled",
    ),
    Mutant(
        "D7 a fork does not wait for compilations",
        "numjit/ground/apart.py",
        "                while self.active and (left := until - time.monotonic()) > 0:",
        "                while False and (left := until - time.monotonic()) > 0:",
        f"{_TESTS}::test_a_fork_waits_for_what_runs_apart",
    ),
    Mutant(
        "D7 a functor is compiled in the midst of its compilation",
        "numjit/functor/scalars/compiler.py",
        '    running = getattr(_thread, "running", None)\n',
        "    running = None\n",
        f"{_TESTS}::test_a_functor_called_in_the_midst_of_its_own_compilation_says_so",
    ),
    Mutant(
        "D13 a first call at the end is an ImportError",
        "numjit/call/planner.py",
        "                if not sys.is_finalizing():\n",
        "                if error:\n",
        f"{_TESTS}::test_calls_at_the_interpreters_end_answer",
    ),
    Mutant(
        "D13 the launcher is offered calls when nothing can be imported",
        "numjit/launcher/attach.py",
        "        if sys.is_finalizing():  # nothing",
        "        if False:  # nothing",
        "tests/unit/test_launcher_edges.py::TestAttaching::test_nothing_is_offered_at_the_interpreters_end",
    ),
    Mutant(
        "D16 Numba is imported without the lock",
        "numjit/functor/python.py",
        """    ) -> Compiled:
        with numba_ready():
            from""",
        """    ) -> Compiled:
        if True:
            from""",
        "tests/unit/test_architecture.py::test_there_is_one_way_in_to_numba",
    ),
    Mutant(
        "D16 two threads import Numba at once",
        "numjit/ground/numba_ready.py",
        """    if MODULES[-1] not in _loaded:
        apart(_load_numba)
    from numba.core.compiler_lock import global_compiler_lock

    with global_compiler_lock:
        yield""",
        "    yield",
        f"{_TESTS}::test_numba_is_imported_by_two_threads_in_two_orders",
    ),
    Mutant(
        "D2 a terminal's Ctrl-C reaches compilers",
        "numjit/cpu/cpp_loop.py",
        "process_group=0 if",
        "process_group=None if",
        f"{_TESTS}::test_a_terminals_interrupt_is_not_for_a_compiler_that_another_thread_waits_for",
    ),
]
