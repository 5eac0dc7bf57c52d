"""Emits the launcher: a function that answers an operation's call, and two that describe its arguments.

``numjit_call(self, args, kwargs)`` stands in the class's slot for calls. It matches the arguments against the
plans of the operation's record and, where one fits, allocates, packs and launches; wherever anything
is unusual it has changed nothing yet and goes the way it went before, through Python.
``numjit_describe`` gives Python the words that calls are matched by and ``numjit_hash`` their hash, so that
both can only agree.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from numjit.launcher.emitter import WORD, WordEmitter
from numjit.launcher.interface import (
    MAX_PARAMETERS,
    MAX_SLOTS,
    MAX_WORDS,
    Api,
    Guard,
    Packing,
    PlanWord,
    Record,
    Span,
)

__all__ = ["API_VARIABLE", "CALL", "DESCRIBE", "HASH", "launcher_module"]

API_VARIABLE = "numjit_api"
CALL = "numjit_call"
DESCRIBE = "numjit_describe"
HASH = "numjit_hash"
_MIXER = 0x9E3779B97F4A7C15 - (1 << 64)
# CPython's structs, the same in every version that numjit supports (and checked when the launcher attaches).
_TYPE, _TUPLE_SIZE, _NUMBER = 8, 16, 16
_ARRAY_DATA = 16  # NumPy's PyArrayObject
_LOW = 1 << 40  # memory lies above this on almost all machines, so that most addresses need no second look


def launcher_module() -> str:
    """Return the launcher as LLVM IR text."""
    module = ir.Module(name="numjit_launcher")
    api = ir.GlobalVariable(module, WORD, API_VARIABLE)
    api.initializer = ir.Constant(WORD, 0)
    describe = ir.Function(module, ir.FunctionType(WORD, [WORD] * 5), DESCRIBE)
    _Describe(describe, api).emit()
    hashing = ir.Function(module, ir.FunctionType(WORD, [WORD] * 2), HASH)
    _emit_hash(WordEmitter(hashing))
    call = ir.Function(module, ir.FunctionType(WORD, [WORD] * 3), CALL)
    _Call(call, api, describe, hashing).emit()
    return str(module)


def _emit_hash(emitter: WordEmitter) -> None:
    """Emit ``hash(words, count)``."""
    words, count = emitter.function.args
    hashed = emitter.variable(0)
    with emitter.repeat(count) as k:
        mixed = emitter.mul(emitter.builder.xor(emitter.get(hashed), emitter.item(words, k)), _MIXER)
        emitter.set(hashed, emitter.builder.xor(mixed, emitter.builder.lshr(mixed, emitter.const(29))))
    emitter.give(emitter.get(hashed))


class _Program(WordEmitter):
    """An emitter that knows the process's table."""

    def __init__(self, function: Any, api: Any) -> None:
        super().__init__(function)
        self._api = self.builder.load(api)

    def api(self, place: Api) -> Any:
        """Return an entry of the process's table."""
        return self.entry(self._api, place)

    def release(self, reference: Any) -> None:
        """Give a reference back."""
        self.call(self.api(Api.DECREF), [reference], "w", "v")

    def clear_error(self) -> None:
        """Forget a Python error."""
        self.call(self.api(Api.CLEAR_ERROR), [], "", "v")

    def item_place(self, items: Any, index: Any) -> Any:
        """Return the address of a tuple's item."""
        return self.add(items, self.add(self.mul(index, 8), self.api(Api.ITEMS_OFFSET)))

    def handle(self, tensor: Any) -> Any:
        """Return the address of a tensor object's ``at::Tensor``."""
        return self.add(tensor, self.api(Api.TENSOR_OFFSET))

    def ask(self, function: Api, handle: Any, refused: Any) -> Any:
        """Return where the answer of one of torch's functions of tensors is; go to a block if it refuses."""
        answer = self.scratch(1)
        status = self.call(self.api(function), [handle, answer], "ww", "i")
        self.jump_if(self.compare("!=", status, 0), refused)
        return answer


class _Describe(_Program):
    """``describe(record, values, out, words, addresses)``: how many words, or -1 for the general way.

    `values` holds one object a parameter, `out` one tensor or 0, `words` takes what plans are matched by,
    `addresses` where each parameter's elements are and last those of `out`.
    """

    def emit(self) -> None:
        record, values, out, words, addresses = self.function.args
        self._words = words
        self._count = self.variable(0)
        self._grads = self.variable(0)
        self._fail = self.block("general")
        self._check_watchers()
        self._add(self.call(self.api(Api.DEFAULT_DTYPE), [], "", "b"))
        parameters = self.entry(record, Record.PARAMETERS)
        with self.repeat(parameters) as k:
            value = self.item(values, k)
            self.jump_if(self.is_zero(value), self._fail)
            self._add_value(value, self.add(addresses, self.mul(k, 8)))
        self._add(out, marker=True)
        with self.when(self.compare("!=", out, 0)):
            kind = self.load(out, _TYPE)
            self.jump_if(self.compare("!=", kind, self.api(Api.TENSOR)), self._fail)
            self.jump_if(self._requires_grad(out), self._fail)
            self._add_tensor(out, self.add(addresses, self.mul(parameters, 8)), Api.GET_OUT_DATA)
        self._check_gradients(record)
        self.give(self.get(self._count))
        self.place(self._fail)
        self.give(-1)

    def _check_watchers(self) -> None:
        """Go the general way where a mode, torch.jit.trace or a profiler is to see the call."""
        modes = self.call(self.api(Api.MODE_COUNT), [], "")
        self.jump_if(self.compare("!=", modes, 0), self._fail)
        function_mode = self.call(self.api(Api.FUNCTION_MODE), [], "", "b")
        self.jump_if(self.compare("!=", function_mode, 0), self._fail)
        above = self.call(self.api(Api.KEY_INCLUDED), [self.api(Api.RECORDED_ABOVE)], "w", "b")
        self.jump_if(self.compare("!=", above, 0), self._fail)
        recorded = self.load(self.call(self.api(Api.TRACING_STATE), [], ""))
        self.jump_if(self.compare("!=", recorded, 0), self._fail)
        self._leave_unless(Api.PROFILER, Api.PROFILING_NAME, Api.FALSE)

    def _leave_unless(self, names: Api, name: Api, value: Api) -> None:
        """Go the general way where a name of a module is not bound to an object."""
        found = self.call(self.api(Api.DICT_GET), [self.api(names), self.api(name)], "ww")
        self.jump_if(self.compare("!=", found, self.api(value)), self._fail)

    def _add(self, word: Any, *, marker: bool = False) -> None:
        if marker:  # whether there is one, not which
            word = self.builder.zext(self.compare("!=", word, 0), WORD)
        self.store(self.add(self._words, self.mul(self.get(self._count), 8)), 0, word)
        self.bump(self._count)

    def _add_value(self, value: Any, address: Any) -> None:
        kind = self.load(value, _TYPE)
        is_tensor = self.builder.or_(
            self.compare("==", kind, self.api(Api.TENSOR)), self.compare("==", kind, self.api(Api.PARAMETER))
        )
        with self.builder.if_else(is_tensor) as (yes, no):
            with yes:
                self._add_tensor(value, address, Api.GET_DATA)
                recorded = self.builder.zext(self._requires_grad(value), WORD)
                self.set(self._grads, self.builder.or_(self.get(self._grads), recorded))
            with no:
                known = self.compare("==", kind, self.api(Api.FLOAT))
                for other in (Api.INT, Api.BOOL, Api.COMPLEX):
                    known = self.builder.or_(known, self.compare("==", kind, self.api(other)))
                self.jump_if(self.builder.not_(known), self._fail)
                self._add(kind)

    def _requires_grad(self, tensor: Any) -> Any:
        impl = self.load(self.handle(tensor))
        return self.compare("!=", self.call(self.api(Api.REQUIRES_GRAD), [impl], "w", "b"), 0)

    def _add_tensor(self, value: Any, address: Any, data: Api) -> None:
        """Add dispatch keys (conj, neg, inference), dtype and device, rank, sizes, strides, alignment.

        The keys come first: torch's functions are only asked about tensors that are nothing but memory.
        """
        handle = self.handle(value)
        keys = self.load(self.load(handle), self.api(Api.KEYS_OFFSET))
        other = self.both(keys, self.api(Api.OTHER_KEYS))
        self.jump_if(self.compare("!=", other, 0), self._fail)
        rank = self.load(self.ask(Api.GET_DIM, handle, self._fail))
        # Whatever numbers follow have room as well.
        room = self.add(self.get(self._count), self.add(self.mul(rank, 2), 4 + MAX_PARAMETERS))
        self.jump_if(self.compare(">", room, MAX_WORDS), self._fail)
        dtype = self.load32(self.ask(Api.GET_DTYPE, handle, self._fail))
        self.jump_if(self.builder.icmp_unsigned(">", dtype, self.const(0xFF)), self._fail)
        size = self.item(self.api(Api.ITEM_SIZES), dtype)
        device = self.load32(self.ask(Api.GET_DEVICE, handle, self._fail))  # the keys say of which kind
        self._add(keys)
        self._add(self.add(dtype, self.mul(device, 0x100)))
        self._add(rank)
        sizes = self.load(self.ask(Api.GET_SIZES, handle, self._fail))
        strides = self.load(self.ask(Api.GET_STRIDES, handle, self._fail))
        with self.repeat(rank) as d:
            self._add(self.item(sizes, d))
            self._add(self.item(strides, d))
        place = self.load(self.ask(data, handle, self._fail))
        with self.when(self.builder.icmp_unsigned("<", place, self.const(_LOW))):
            # Without elements there is no address; where memory was given up, there is only the way into it.
            self.jump_if(self.is_zero(place), self._fail)
            start = self.load(self.ask(Api.GET_START, handle, self._fail))
            self.jump_if(self.compare("==", place, self.mul(start, size)), self._fail)
        self.store(address, 0, place)
        self._add(self.both(place, 15))

    def _check_gradients(self, record: Any) -> None:
        """Go the general way where torch would record, or a tensor may have a tangent."""
        with self.when(self.is_zero(self.entry(record, Record.DETACHED))):
            self._leave_unless(Api.FORWARD, Api.LEVEL_NAME, Api.NO_LEVEL)
            with self.when(self.compare("!=", self.get(self._grads), 0)):
                mode = self.call(self.api(Api.GRAD_ENABLED), [], "", "b")
                self.jump_if(self.compare("!=", mode, 0), self._fail)


class _Call(_Program):
    """``call(self, args, kwargs)``: a new reference to the result, or what Python's own slot answers."""

    def __init__(self, function: Any, api: Any, describe: Any, hashing: Any) -> None:
        super().__init__(function, api)
        self._describe, self._hash = describe, hashing

    def emit(self) -> None:
        operation, args, kwargs = self.function.args
        self._general = self.block("general")
        self._undo = self.block("undo")
        array = self.load(operation, self.api(Api.RECORD_OFFSET))
        self.jump_if(self.is_zero(array), self._general)
        record = self.load(array, _ARRAY_DATA)
        self._values = self.scratch(MAX_PARAMETERS)
        self._addresses = self.scratch(MAX_PARAMETERS + 1)
        self._words = self.scratch(MAX_WORDS)
        self._results = self.scratch(MAX_PARAMETERS)
        self._made = self.variable(0)
        self._owner = self.variable(0)
        self._out = self.variable(0)
        self._bind(record, args, kwargs)
        self._check_guards(record)
        count = self.builder.call(
            self._describe, [record, self._values, self.get(self._out), self._words, self._addresses]
        )
        self.jump_if(self.compare("<", count, 0), self._general)
        plan = self._find(record, count)
        self._check_context(plan)
        self._check_overlap(record, plan)
        owner = self.entry(plan, PlanWord.OWNER)
        self.call(self.api(Api.INCREF), [owner], "w", "v")
        self.set(self._owner, owner)
        self._allocate(record, plan)
        self._launch(plan)
        hits = self.add(self.entry(record, Record.HITS), 1)
        self.store(record, 8 * Record.HITS, hits)
        count = self.entry(plan, PlanWord.OUTPUTS)
        self.release(owner)  # a plan that was forgotten meanwhile is gone now
        self._answer(count)
        self.place(self._undo)
        with self.repeat(self.get(self._made)) as k:
            self.release(self.item(self._results, k))
        with self.when(self.compare("!=", self.get(self._owner), 0)):
            self.release(self.get(self._owner))
        self.jump(self._general)
        self.place(self._general)
        self.give(self.call(self.api(Api.SLOT_CALL), [operation, args, kwargs], "www"))

    # ----------------------------------------------------------------------------------- arguments

    def _bind(self, record: Any, args: Any, kwargs: Any) -> None:
        """Put one object a parameter into the values: defaults, then operands by position, then keywords."""
        given = self.load(args, _TUPLE_SIZE)
        too_many = self.compare(">", given, self.entry(record, Record.OPERANDS))
        self.jump_if(too_many, self._general)
        parameters, defaults = self.entry(record, Record.PARAMETERS), self.entry(record, Record.DEFAULTS)
        with self.repeat(parameters) as k:
            self.store(self.add(self._values, self.mul(k, 8)), 0, self.item(defaults, k))
        with self.repeat(given) as k:
            value = self.load(self.item_place(args, k))
            self.store(self.add(self._values, self.mul(k, 8)), 0, value)
        with self.when(self.compare("!=", kwargs, 0)):
            self._bind_keywords(record, kwargs, given, parameters)

    def _bind_keywords(self, record: Any, kwargs: Any, given: Any, parameters: Any) -> None:
        position, key, value = self.scratch(1), self.scratch(1), self.scratch(1)
        self.store(position, 0, 0)
        test, inside, after = self.block("next"), self.block("keyword"), self.block("bound")
        self.jump(test)
        self.place(test)
        more = self.call(self.api(Api.DICT_NEXT), [kwargs, position, key, value], "wwww", "i")
        self.builder.cbranch(self.compare("!=", more, 0), inside, after)
        self.place(inside)
        name, passed = self.load(key), self.load(value)
        names = self.entry(record, Record.NAMES)
        found = self.variable(0)
        with self.when(self.compare("==", name, self.api(Api.OUT_NAME))):
            self.set(found, 1)
            with self.when(self.compare("!=", passed, self.api(Api.NONE))):
                self.set(self._out, passed)
        with self.repeat(parameters) as k, self.when(self.compare("==", self.item(names, k), name)):
            self.jump_if(self.compare("<", k, given), self._general)
            self.store(self.add(self._values, self.mul(k, 8)), 0, passed)
            self.set(found, 1)
        self.jump_if(self.is_zero(self.get(found)), self._general)
        self.jump(test)
        self.place(after)

    def _check_guards(self, record: Any) -> None:
        """Go the general way where a captured name means something else than when the plans were made."""
        guards = self.entry(record, Record.GUARDS)
        none = self.api(Api.NONE)
        with self.repeat(self.entry(record, Record.GUARD_COUNT)) as k:
            guard = self.add(guards, self.mul(k, 32))
            found = self.variable(0)
            by_name = self.compare("==", self.load(guard), int(Guard.NAME))
            with self.builder.if_else(by_name) as (yes, no):
                with yes:
                    arguments = [self.load(guard, 8), self.load(guard, 16)]
                    self.set(found, self.call(self.api(Api.DICT_GET), arguments, "ww"))
                with no:
                    self.set(found, self.load(self.load(guard, 8)))
            with self.when(self.is_zero(self.get(found))):
                self.set(found, none)
            changed = self.compare("!=", self.get(found), self.load(guard, 24))
            self.jump_if(changed, self._general)

    # ---------------------------------------------------------------------------------------- plan

    def _find(self, record: Any, count: Any) -> Any:
        """Return the plan with these words; without one, the call goes the general way.

        The one that was found last is tried first: hashing takes longer than comparing.
        """
        look_up, probe, compare, other, found = (
            self.block(name) for name in ("look_up", "probe", "compare", "other", "found")
        )
        chosen = self.variable(self.entry(record, Record.RECENT))
        self.jump_if(self.is_zero(self.get(chosen)), look_up)
        self._compare(self.get(chosen), count, look_up)
        self.jump(found)
        self.place(look_up)
        hashed = self.builder.call(self._hash, [self._words, count])
        table, mask = self.entry(record, Record.TABLE), self.entry(record, Record.MASK)
        slot = self.variable(0)
        self.set(slot, self.both(hashed, mask))
        self.jump(probe)
        self.place(probe)
        place = self.add(table, self.mul(self.get(slot), 16))
        plan = self.load(place, 8)
        self.jump_if(self.is_zero(plan), self._general)
        self.builder.cbranch(self.compare("==", self.load(place), hashed), compare, other)
        self.place(compare)
        self._compare(plan, count, other)
        self.set(chosen, plan)
        self.store(record, 8 * Record.RECENT, plan)
        self.jump(found)
        self.place(other)
        self.set(slot, self.both(self.add(self.get(slot), 1), mask))
        self.jump(probe)
        self.place(found)
        return self.get(chosen)

    def _compare(self, plan: Any, count: Any, other: Any) -> None:
        """Go on where a plan has the call's words, else to a block."""
        self.jump_if(self.compare("!=", self.entry(plan, PlanWord.WORD_COUNT), count), other)
        words = self.entry(plan, PlanWord.WORDS)
        with self.repeat(count) as k:
            self.jump_if(self.compare("!=", self.item(words, k), self.item(self._words, k)), other)

    def _check_context(self, plan: Any) -> None:
        """Go the general way where another device is current.

        A thread that has not used CUDA yet, as torch's own of backward, is on device 0 and without a context:
        the runtime would make that device's current with its first call there, and so does the launcher.
        """
        place = self.scratch(1)
        self.store(place, 0, 0)
        status = self.call(self.api(Api.GET_CONTEXT), [place], "w", "i")
        self.jump_if(self.compare("!=", status, 0), self._general)
        current, wanted = self.load(place), self.entry(plan, PlanWord.CONTEXT)
        with self.when(self.compare("!=", current, wanted)):
            self.jump_if(self.compare("!=", current, 0), self._general)
            self.jump_if(self.compare("!=", self.entry(plan, PlanWord.DEVICE), 0), self._general)
            status = self.call(self.api(Api.SET_CONTEXT), [wanted], "w", "i")
            self.jump_if(self.compare("!=", status, 0), self._general)

    def _address(self, parameter: Any) -> Any:
        return self.item(self._addresses, parameter)

    def _span(self, plan: Any, k: Any) -> Any:
        return self.add(self.entry(plan, PlanWord.INPUT_TABLE), self.mul(k, 8 * len(Span)))

    def _check_overlap(self, record: Any, plan: Any) -> None:
        """Go the general way, which explains it, where `out` shares some of an input's memory, not all."""
        with self.when(self.compare("!=", self.entry(plan, PlanWord.GIVEN), 0)):
            out = self._address(self.entry(record, Record.PARAMETERS))
            low = self.add(out, self.entry(plan, PlanWord.OUT_LOW))
            high = self.add(out, self.entry(plan, PlanWord.OUT_HIGH))
            with self.repeat(self.entry(plan, PlanWord.INPUTS)) as k:
                span = self._span(plan, k)
                address = self._address(self.entry(span, Span.PARAMETER))
                below = self.compare("<=", self.add(address, self.entry(span, Span.HIGH)), low)
                above = self.compare(">=", self.add(address, self.entry(span, Span.LOW)), high)
                equal = self.builder.and_(
                    self.compare("==", address, out), self.compare("!=", self.entry(span, Span.SAME), 0)
                )
                fine = self.builder.or_(self.builder.or_(below, above), equal)
                self.jump_if(self.builder.not_(fine), self._general)

    # --------------------------------------------------------------------------------------- launch

    def _allocate(self, record: Any, plan: Any) -> None:
        """Make new outputs and read where they are; a given one was read already."""
        self._pointers = self.scratch(MAX_PARAMETERS)
        given, new, ready = self.block("given"), self.block("new"), self.block("ready")
        self.builder.cbranch(self.compare("!=", self.entry(plan, PlanWord.GIVEN), 0), given, new)
        self.place(given)
        out = self.get(self._out)
        self.call(self.api(Api.INCREF), [out], "w", "v")
        self.store(self._results, 0, out)
        self.set(self._made, 1)
        written = self.call(self.api(Api.NEW_TUPLE), [1], "w")
        self.jump_if(self.is_zero(written), self._failed())
        self.call(self.api(Api.INCREF), [out], "w", "v")
        self.store(self.item_place(written, 0), 0, out)
        argument = self.scratch(1)
        self.store(argument, 0, written)
        counted = self.call(self.api(Api.VECTORCALL), [self.api(Api.WRITTEN), argument, 1, 0], "wwww")
        self.release(written)
        self.jump_if(self.is_zero(counted), self._failed())
        self.release(counted)
        address = self._address(self.entry(record, Record.PARAMETERS))
        self.store(self._pointers, 0, self.add(address, self.load(self.entry(plan, PlanWord.OUTPUT_OFFSETS))))
        self.jump(ready)
        self.place(new)
        allocations, failed = self.entry(plan, PlanWord.ALLOCATIONS), self._failed()
        with self.repeat(self.entry(plan, PlanWord.OUTPUTS)) as k:
            arguments = [self.api(Api.EMPTY), self.item(allocations, k), 0]
            made = self.call(self.api(Api.CALL), arguments, "www")
            self.jump_if(self.is_zero(made), failed)
            self.store(self.add(self._results, self.mul(k, 8)), 0, made)
            self.bump(self._made)
            start = self.load(self.ask(Api.GET_OUT_DATA, self.handle(made), failed))
            address = self.add(start, self.item(self.entry(plan, PlanWord.OUTPUT_OFFSETS), k))
            self.store(self.add(self._pointers, self.mul(k, 8)), 0, address)
        self.jump(ready)
        self.place(ready)

    def _failed(self) -> Any:
        """Return a block that forgets the error and goes the general way, which raises it anew."""
        here = self.builder.block
        block = self.block("failed")
        self.place(block)
        self.clear_error()
        self.jump(self._undo)
        self.place(here)
        return block

    def _launch(self, plan: Any) -> None:
        slots, table = self.scratch(MAX_SLOTS), self.scratch(MAX_SLOTS)
        template = self.entry(plan, PlanWord.TEMPLATE)
        with self.repeat(self.entry(plan, PlanWord.SLOTS)) as k:
            place = self.add(slots, self.mul(k, 8))
            self.store(place, 0, self.item(template, k))
            self.store(self.add(table, self.mul(k, 8)), 0, place)
        with self.repeat(self.entry(plan, PlanWord.OUTPUTS)) as k:
            self.store(self.add(slots, self.mul(k, 8)), 0, self.item(self._pointers, k))
        with self.repeat(self.entry(plan, PlanWord.INPUTS)) as k:
            span = self._span(plan, k)
            address = self._address(self.entry(span, Span.PARAMETER))
            place = self.add(slots, self.mul(self.entry(span, Span.SLOT), 8))
            self.store(place, 0, self.add(address, self.entry(span, Span.OFFSET)))
        with self.repeat(self.entry(plan, PlanWord.VALUES)) as k:
            value = self.add(self.entry(plan, PlanWord.VALUE_TABLE), self.mul(k, 24))
            place = self.add(slots, self.mul(self.load(value, 8), 8))
            self._pack(self.item(self._values, self.load(value)), place, self.load(value, 16))
        stream, failed = self.scratch(1), self._failed()
        status = self.call(
            self.api(Api.CURRENT_STREAM), [self.entry(plan, PlanWord.DEVICE), stream], "iw", "i"
        )
        self.jump_if(self.compare("!=", status, 0), failed)
        # A full queue makes the driver wait, and what it waits for may need Python.
        state = self.call(self.api(Api.SAVE_THREAD), [], "")
        code = self.call(
            self.api(Api.LAUNCH),
            [
                self.entry(plan, PlanWord.FUNCTION), self.entry(plan, PlanWord.GRID), 1, 1,
                self.entry(plan, PlanWord.BLOCK), 1, 1, self.entry(plan, PlanWord.SHARED),
                self.load(stream), table,
                0,
            ],
            "wiiiiiiiwww",
            "i",
        )  # fmt: skip
        self.call(self.api(Api.RESTORE_THREAD), [state], "w", "v")
        self.jump_if(self.compare("!=", code, 0), self._undo)

    def _pack(self, value: Any, place: Any, code: Any) -> None:
        """Write a Python number as the kernel takes it; an int beyond 64 bits goes the general way."""
        builder = self.builder
        done = self.block("packed")
        blocks = {kind: self.block(kind.name.lower()) for kind in Packing}
        switch = builder.switch(code, self._undo)
        for kind, block in blocks.items():
            switch.add_case(self.const(int(kind)), block)
        single = ir.FloatType()
        for kind, block in blocks.items():
            self.place(block)
            target, _, source = kind.name.partition("_OF_")
            if source in {"FLOAT", "REAL", "IMAG"}:
                number = self.load_double(value, _NUMBER + (8 if source == "IMAG" else 0))
                if target == "FLOAT32":
                    number = builder.fptrunc(number, single)
            else:
                if source == "BOOL":
                    whole = builder.zext(self.compare("==", value, self.api(Api.TRUE)), WORD)
                else:
                    overflow = self.scratch(1)
                    self.store(overflow, 0, 0)
                    whole = self.call(self.api(Api.LONG_VALUE), [value, overflow], "ww")
                    self.jump_if(self.compare("!=", self.load32(overflow), 0), self._undo)
                if target == "BOOL":
                    whole = builder.zext(self.compare("!=", whole, 0), WORD)
                kinds = {"FLOAT32": single, "FLOAT64": ir.DoubleType()}
                number = builder.sitofp(whole, kinds[target]) if target in kinds else whole
            self.store(place, 0, number)
            self.jump(done)
        self.place(done)

    def _answer(self, count: Any) -> None:
        """Return the only output, or a tuple of several."""
        with self.when(self.compare("==", count, 1)):
            self.give(self.load(self._results))
            self.place(self.block("unreachable"))
        several = self.call(self.api(Api.NEW_TUPLE), [count], "w")
        with self.when(self.compare("!=", several, 0)), self.repeat(count) as k:
            self.store(self.item_place(several, k), 0, self.item(self._results, k))
        with self.when(self.is_zero(several)), self.repeat(count) as k:
            self.release(self.item(self._results, k))
        self.give(several)  # without memory for a tuple: 0, and the error is Python's
