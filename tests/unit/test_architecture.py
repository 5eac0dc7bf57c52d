"""The direction of imports: places only know those before them, and no two files import each other.

Every import counts: inside functions, for type checking, and of a module that a text names.
"""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2] / "numjit"
GROUND = {"errors", "config", "dtypes", "ground", "cache"}
ENGINE = {
    "semantics",
    "plan",
    "codegen",
    "kernels",
    "arrays",
    "functor",
    "cpu",
    "toolchain",
    "runtime",
    "launcher",
}
#: What each place may import besides itself. A place is a folder, or a file beside the folders.
ALLOWED = {
    "errors": set(),
    "config": {"errors"},
    "dtypes": {"errors"},
    "math": {"errors"},
    "ground": {"errors"},
    "cache": {"config", "ground"},
    "semantics": {"dtypes", "errors"},
    "plan": {"errors"},
    "codegen": {"dtypes"},
    "kernels": {"dtypes", "ground", "codegen", "plan"},
    "runtime": {"errors", "ground", "cache"},
    "arrays": {"dtypes", "errors", "ground", "semantics", "runtime"},
    "launcher": GROUND,
    "rules": {"dtypes", "errors", "math", "semantics", "codegen"},
    "functor": GROUND | {"math", "semantics", "codegen", "rules", "arrays"},
    "cpu": GROUND | {"functor", "codegen", "plan"},
    "toolchain": GROUND | {"functor"},
    "call": GROUND | ENGINE,
    "torch": GROUND | {"semantics", "arrays", "rules", "math", "functor", "launcher", "call"},
    "ahead": GROUND | ENGINE | {"call"},
    "tools": GROUND | ENGINE | {"call", "torch", "ahead"},
    "demo": GROUND,
    "elementwise": GROUND | {"functor", "runtime", "launcher", "call", "tools", "torch"},
    "value_and_grad": {"errors", "ground", "functor", "elementwise"},
    "operators": {"errors", "torch", "elementwise"},
    "jiterator": GROUND | {"semantics", "functor", "launcher", "call", "torch"},
    "__main__": {"ahead", "demo", "tools"},
}
#: Where a lower place calls a higher one: the function that takes what is called, and who gives it.
HOOKS = {
    "numjit.functor.cpp.functor.set_return_type_prober": "numjit.call.build",
    "numjit.torch.recorded.use_operators": "numjit.elementwise",
}
#: Files that import modules by name, and why that is no way around the table.
BY_NAME = {
    "numjit": "the public names that most processes do without, each of its own file",
    "numjit.ground.apart": "imports in a thread of their own, of what the caller names",
    "numjit.ground.numba_ready": "Numba's modules, in one order",
    "numjit.arrays.numpy_arrays": "ml_dtypes, where it is installed",
    "numjit.ahead.command": "the user's module that the command line names",
    "numjit.elementwise": "the user's module that a pickle names",
}


def module_name(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted(ROOT.rglob("*.py"))
MODULES = {module_name(path): path for path in FILES}
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


def imports_of(name):
    """Names of numjit's modules that a module imports, wherever in its text."""
    found = set()
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: a relative import"
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            found.update(one if one in MODULES else node.module for one in whole)
        elif isinstance(node, ast.Constant) and node.value in MODULES and node.value != "numjit":
            found.add(node.value)
    return (found & set(MODULES)) - {name, "numjit"}


IMPORTS = {name: imports_of(name) for name in MODULES if name != "numjit"}


def place(name):
    return name.split(".")[1]


def circles(graph):
    """Sets of names that reach each other."""

    def reached(name):
        found, todo = set(), [name]
        while todo:
            more = graph.get(todo.pop(), set()) - found
            found |= more
            todo += more
        return found

    reach = {name: reached(name) for name in graph}
    return {frozenset(o for o in reach[n] if n in reach.get(o, ())) for n in graph if n in reach[n]}


def test_every_place_is_in_the_table():
    assert set(map(place, IMPORTS)) == set(ALLOWED)
    assert not circles({name: set(allowed) for name, allowed in ALLOWED.items()})


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_a_place_only_knows_those_before_it(name):
    for module in (one for one in IMPORTS if place(one) == name):
        for other in IMPORTS[module]:
            assert place(other) in ALLOWED[name] | {name}, f"{module} imports {other}"


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_what_the_table_allows_is_used(name):
    used = {place(other) for one in IMPORTS if place(one) == name for other in IMPORTS[one]}
    spare = ALLOWED[name] - used - GROUND - ENGINE
    assert not spare


def test_no_files_import_each_other():
    assert not circles(IMPORTS)


def test_what_is_imported_by_name_is_listed():
    by_name = set()
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            called = node.func if isinstance(node, ast.Call) else None
            if getattr(called, "attr", getattr(called, "id", "")) in {"import_module", "__import__"}:
                by_name.add(name)
    assert by_name == set(BY_NAME)


def test_hooks_are_listed_and_filled_by_one_place():
    for hook, by in HOOKS.items():
        home, _, function = hook.rpartition(".")
        assert any(isinstance(n, ast.FunctionDef) and n.name == function for n in TREES[home].body), hook
        callers = {
            name
            for name, tree in TREES.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and getattr(node.func, "attr", getattr(node.func, "id", "")) == function
        }
        assert callers == {by}, hook


def test_the_document_names_files_that_are_there_and_every_place():
    text = (ROOT.parent / "docs" / "architecture.md").read_text()
    for path in re.findall(r"`(numjit/[\w/]+\.py)`", text):
        assert (ROOT.parent / path).is_file(), path
    figure = text.partition("```text")[2].partition("```")[0]
    assert set(ALLOWED) <= set(re.findall(r"\w+", figure))
    ways = [section for section in text.split("\n## ") if "\n1. " in section]
    assert len(ways) == 5
    for way in ways:
        steps = [int(number) for number in re.findall(r"^(\d+)\. ", way, re.MULTILINE)]
        assert steps == list(range(1, len(steps) + 1))
        assert len(steps) <= 12


def test_no_module_imports_torch_numba_or_cuda_when_imported():
    heavy = {"torch", "numba", "cuda", "cupy"}
    behind = {
        "functor.scalars",
        "rules",
        "torch.see_through",
        "codegen",
        "kernels",
        "cpu.python_loop",
        "functor.device",
    }
    for name, path in MODULES.items():
        if any(name == f"numjit.{room}" or name.startswith(f"numjit.{room}.") for room in behind):
            continue  # only imported when something is compiled
        for node in ast.parse(path.read_text()).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
            assert not {n.split(".")[0] for n in names} & heavy, f"{name} imports {names}"


def _is_numba(name):
    return name.split(".")[0] == "numba"


def _imports(node):
    """The (module, whole name) pairs of one import statement."""
    if isinstance(node, ast.Import):
        return [(alias.name, alias.name) for alias in node.names]
    return [(node.module, f"{node.module}.{alias.name}") for alias in node.names]


def _statements(tree):
    """Yield every import that runs, with whether it is in a function and whether Numba is held there."""
    todo = [(child, False, False) for child in tree.body]
    while todo:
        node, inside, held = todo.pop()
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.level == 0):
            yield node, inside, held
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside, held = True, False
        if isinstance(node, ast.With):
            names = {ast.unparse(item.context_expr) for item in node.items}
            held = held or bool(names & {"numba_ready()", "numba_cuda_ready()"})
        todo += [(child, inside, held) for child in ast.iter_child_nodes(node)]


def _behind():
    """Modules that import Numba when they are imported, and the others in their folder."""
    found = {name for name in MODULES if name.startswith("numjit.functor.scalars.")}
    while True:
        more = {
            name
            for name, path in MODULES.items()
            if name not in found
            for node, inside, _ in _statements(ast.parse(path.read_text()))
            if not inside
            for module, whole in _imports(node)
            if _is_numba(module) or {module, whole} & found
        }
        if not more:
            return found
        found |= more


def test_there_is_one_way_in_to_numba():
    """What imports Numba when it is imported is imported while Numba is held; later all of it is there."""
    from numjit.ground.numba_ready import CUDA_MODULES
    from numjit.ground.numba_ready import MODULES as PRELOADED

    behind = _behind()
    assert "numjit.functor.scalars.compiler" in behind
    assert "numjit.call.build" not in behind
    loaded = {*PRELOADED, *CUDA_MODULES}
    loaded |= {name.rpartition(".")[0] for name in loaded}
    wrong = []
    for name, path in MODULES.items():
        if name == "numjit.ground.numba_ready":
            continue
        tree = ast.parse(path.read_text())
        fetched = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        for node, inside, held in _statements(tree):
            for module, whole in _imports(node):
                if name in behind:
                    good = not inside or not _is_numba(module) or {module, whole} & loaded
                elif _is_numba(module) or {module, whole} & behind:
                    good = held or (module in fetched and "imported(" in path.read_text())
                else:
                    continue
                if not good:
                    wrong.append(f"{name}:{node.lineno} {whole}")
    assert not wrong
