"""What becomes of a C++ compiler's messages: the user's own lines, in few words."""

from numjit.functor.cpp.diagnostics import describe, parse_edg, parse_gnu

EDG = """functor(2): warning #177-D: variable "unused" was declared but never referenced
    int unused = 3;
        ^

functor(3): error: expected a ";"
  \treturn x + y
  \t           ^

numjit/device.h(312): error: no operator "<" matches these operands
            operand types are: const numjit_complex::complex<float> < const numjit_complex::complex<float>
    return a < b ? b : a;
             ^
numjit/device.h(312): note #3328-D: built-in operator<(<nullptr>, <nullptr>) does not match
    return a < b ? b : a;
             ^
          detected during:
            instantiation of "const T &numjit_standard::max(const T &, const T &)" at line 2 of functor
            instantiation of "T numjit_scope::numjit_user::f(T)" at line 3 of numjit/seam

2 errors detected in the compilation of "functor".
"""


def test_reading_nvrtcs_log():
    first, second = parse_edg(EDG)
    assert first == ("functor", 3, 13, 'expected a ";"')
    assert second[:3] == ("functor", 2, 0)
    message = describe("f", "sm_90", [first, second], lambda _, n: ["", "a", "\treturn x + y"][n - 1], EDG)
    assert message.splitlines() == [
        "functor 'f' does not compile for sm_90; correct its text:",
        '  line 3, column 13: expected a ";"',
        "    \treturn x + y",
        "    \t           ^",
        '  line 2: no operator "<" matches these operands',
        "    a",
    ]


def test_reading_gccs_and_clangs_logs():
    gcc = (
        "functor: In function 'f':\n"
        "/usr/include/x.h: In instantiation of 'max':\n"
        "functor:2:18:   required from 'T f(T)'\n"
        "numjit/seam:5:31:   required from here\n"
        "/usr/include/x.h:259:15: error: no match for 'operator<'\n"
        "functor:3:4: fatal error: nope.h: No such file\n"
    )
    assert parse_gnu(gcc) == [
        ("functor", 2, 18, "no match for 'operator<'"),
        ("functor", 3, 4, "nope.h: No such file"),
    ]
    clang = "/usr/x.h:9:1: error: bad\nfunctor:2:18: note: in instantiation of 'f' requested here\n"
    assert parse_gnu(clang) == [("functor", 2, 0, "bad")]


def test_messages_stay_short():
    errors = parse_gnu("".join(f"functor:{i}:1: error: {'long ' * 200}{i}\n" for i in range(1, 30)))
    message = describe("f", "the CPU", errors, lambda *_: "text", "")
    assert len(message.splitlines()) < 15
    assert message.endswith("and 26 more")
    assert len(describe("f", "the CPU", [], lambda *_: "", "x\n" * 100).splitlines()) < 15
