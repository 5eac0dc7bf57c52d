"""The direction of imports: stages only know what comes before them, and no two files import each other."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2] / "numjit"
#: What a room may import of numjit besides itself; leaves are open to everyone.
LEAVES = {"errors", "config", "dtypes", "cache", "ground"}
ALLOWED = {
    "errors": set(),
    "config": set(),
    "dtypes": set(),
    "cache": set(),
    "ground": set(),
    "semantics": set(),
    "codegen": set(),
    "rules": {"codegen", "functor.scalars.special", "functor.scalars.complex_math"},
    "functor": {"rules", "semantics", "codegen", "toolchain.numba_cuda", "math"},
    "plan": set(),
    "kernels": {"codegen", "plan"},
    "toolchain": {"functor"},
    "runtime": set(),
    "arrays": {"semantics"},
    "cpu": {"functor", "codegen"},
    "launcher": set(),
}


def module_name(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path, *, top_level):
    """Names of numjit's modules that a file imports (only outside of functions where `top_level`)."""
    found = set()

    def visit(nodes):
        for node in nodes:
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    found.add(whole if whole in MODULES else node.module)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and top_level:
                continue
            elif isinstance(node, ast.If) and top_level and "TYPE_CHECKING" in ast.dump(node.test):
                visit(node.orelse)
            else:
                visit(ast.iter_child_nodes(node))

    visit(ast.parse(path.read_text()).body)
    return {name for name in found if name == "numjit" or name.startswith("numjit.")}


FILES = sorted(ROOT.rglob("*.py"))
MODULES = {module_name(path): path for path in FILES}


def room(name):
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


@pytest.mark.parametrize("name", [n for n in MODULES if room(n) in ALLOWED])
def test_a_room_only_knows_the_stages_before_it(name):
    mine = room(name)
    for other in imports_of(MODULES[name], top_level=True):
        theirs = room(other)
        if theirs in {mine, ""} | LEAVES:
            continue
        allowed = any(
            other == f"numjit.{entry}" or other.startswith(f"numjit.{entry}.") for entry in ALLOWED[mine]
        )
        assert allowed, f"{name} imports {other}"


def test_no_files_import_each_other():
    graph = {name: imports_of(path, top_level=True) & set(MODULES) for name, path in MODULES.items()}
    graph = {name: {other for other in others if other != "numjit"} for name, others in graph.items()}
    done, path = set(), []

    def walk(name):
        assert name not in path, f"import cycle: {' -> '.join([*path[path.index(name) :], name])}"
        if name in done:
            return
        path.append(name)
        for other in sorted(graph.get(name, ())):
            walk(other)
        path.pop()
        done.add(name)

    for name in graph:
        walk(name)


#: Files that reach each other once imports inside functions and for type checking count; it may only shrink.
CIRCLES = """
ahead.run ahead.warmup
call.build functor.device_function
call.detached call.planned call.warm call.warm_arrays elementwise launcher.attach launcher.records
 tools.inspection tools.prepared torch.autograd torch.batches torch.by_hand torch.compile
 torch.definition torch.dispatch torch.gradient torch.lookup torch.meta torch.module torch.operator
 torch.sharding
functor.markers functor.python functor.scalars.compiler functor.scalars.constants
 functor.scalars.constants_pass functor.scalars.index_pass functor.scalars.registry
 functor.scalars.seeds functor.scalars.session functor.scalars.unset_pass
functor.scalars.derivatives functor.scalars.tracing
torch.see_through.calls torch.see_through.statements
"""


def test_no_new_file_is_in_a_circle_of_all_imports():
    known = set(MODULES) - {"numjit"}
    graph = {name: imports_of(MODULES[name], top_level=False) & known - {name} for name in known}

    def reached(name):
        found, todo = set(), [name]
        while todo:
            more = graph[todo.pop()] - found
            found |= more
            todo += more
        return found

    reach = {name: reached(name) for name in known}
    circles = {
        " ".join(sorted(other.removeprefix("numjit.") for other in reach[name] if name in reach[other]))
        for name in known
        if name in reach[name]
    }
    assert circles == set(CIRCLES.replace("\n ", " ").split("\n")) - {""}


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
