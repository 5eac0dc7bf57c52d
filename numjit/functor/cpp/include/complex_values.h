// Functions of complex numbers, made of real ones. Written by `python -m numjit.rules.cpp_values`; the
// formulas stand in numjit/rules/complex_math.py.
// Follows complex.h. Lines from "//@ words" to "//@" are left out of programs that use none of the words.
#ifdef __CUDACC_RTC__
#define NUMJIT_INLINE __forceinline__
namespace numjit_complex { namespace detail { namespace std {
using ::asinh; using ::atan2; using ::copysign; using ::cos; using ::cosh; using ::exp; using ::fabs; using ::fma; using ::hypot; using ::log; using ::log1p; using ::sin; using ::sinh; using ::sqrt; using ::tan; using ::tanh;
} } }
#else
#define NUMJIT_INLINE inline
#endif
//@ exp pow
namespace numjit_complex {
template <class R>
NUMJIT_INLINE complex<R> exp(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  const R t1 = detail::std::exp(x);
  if (y == R(0)) return complex<R>(t1, y);
  if (detail::std::fabs(x) == R(HUGE_VAL) && !(detail::std::fabs(y) < R(HUGE_VAL))) {
    const bool t2 = x < R(0);
    return complex<R>(t2 ? R(0) : x, t2 ? R(0) : R(NAN));
  }
  const R t3 = detail::std::cos(y);
  const R t4 = detail::std::sin(y);
  if (detail::std::fabs(t1) < R(HUGE_VAL)) return complex<R>(t1 * t3, t1 * t4);
  const R t5 = detail::std::exp(x * R(0.5));
  return complex<R>(t5 * t3 * t5, t5 * t4 * t5);
}
}  // namespace numjit_complex
namespace numjit_standard { using numjit_complex::exp; }
//@
//@ log log10 log2 pow
namespace numjit_complex {
template <class R>
NUMJIT_INLINE complex<R> log(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  const R t1 = detail::std::fabs(x);
  const R t2 = detail::std::fabs(y);
  const bool t3 = t1 > t2;
  const R t4 = t3 ? t1 : t2;
  R t5;
  if (t4 > R(0.5) && t4 < R(1.5)) {
    const R t6 = t3 ? t2 : t1;
    const R t7 = detail::std::fma(t4, t4, R(0));
    const R t8 = t6 * t6;
    const R t9 = t7 - R(1);
    const R t10 = t9 + t8;
    t5 = detail::std::log1p(t10 + ((detail::std::fabs(t9) >= t8 ? t9 - t10 + t8 : t8 - t10 + t9) + (detail::std::fma(t4, t4, -t7) + detail::std::fma(t6, t6, -t8)))) * R(0.5);
  } else {
    const bool t11 = t4 > R(sizeof(R) == 4 ? 4.2535293329816107e+37 : 2.2471164185778946e+307);
    const bool t12 = t4 < R(sizeof(R) == 4 ? 1.9721522630525295e-31 : 4.008336720017946e-292);
    const R t13 = t11 ? R(0.0625) : t12 ? R(sizeof(R) == 4 ? 16777216.0 : 1.8014398509481984e+16) : R(1);
    t5 = detail::std::log(detail::std::hypot(x * t13, y * t13)) + (t11 ? R(2.772588722239781) : t12 ? R(sizeof(R) == 4 ? -16.635532333438686 : -37.42994775023705) : R(0));
  }
  return complex<R>(t5, detail::std::atan2(y, x));
}
}  // namespace numjit_complex
namespace numjit_standard { using numjit_complex::log; }
//@
//@ log10
namespace numjit_complex {
template <class R>
NUMJIT_INLINE complex<R> log10(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  const complex<R> t1 = log(complex<R>(x, y));
  return complex<R>(t1.real() * R(0.43429448190325176), t1.imag() * R(0.43429448190325176));
}
}  // namespace numjit_complex
namespace numjit_standard { using numjit_complex::log10; }
//@
//@ sqrt asin acos acosh asinh
namespace numjit_complex {
template <class R>
NUMJIT_INLINE complex<R> sqrt(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  const R t1 = detail::std::fabs(y);
  if (t1 == R(HUGE_VAL)) return complex<R>(R(HUGE_VAL), y);
  const bool t2 = y == y;
  const R t3 = t2 ? R(0) : y;
  if (x == R(-HUGE_VAL)) return complex<R>(t3, detail::std::copysign(R(HUGE_VAL), y));
  if (x == R(HUGE_VAL)) return complex<R>(x, t2 ? detail::std::copysign(t3, y) : y);
  if (x == R(0) && y == R(0)) return complex<R>(R(0), y);
  const R t4 = detail::std::fabs(x);
  const R t5 = t4 > t1 ? t4 : t1;
  const bool t6 = t5 > R(sizeof(R) == 4 ? 4.2535293329816107e+37 : 2.2471164185778946e+307);
  const bool t7 = t5 < R(sizeof(R) == 4 ? 1.9721522630525295e-31 : 4.008336720017946e-292);
  const R t8 = t6 ? R(0.0625) : t7 ? R(sizeof(R) == 4 ? 16777216.0 : 1.8014398509481984e+16) : R(1);
  const R t9 = x * t8;
  const R t10 = y * t8;
  const R t11 = t6 ? R(4) : t7 ? R(sizeof(R) == 4 ? 0.000244140625 : 7.450580596923828e-09) : R(1);
  const R t12 = detail::std::sqrt((detail::std::fabs(t9) + detail::std::hypot(t9, t10)) * R(0.5));
  const R t13 = t10 / (t12 * R(2));
  const bool t14 = x >= R(0);
  return complex<R>((t14 ? t12 : detail::std::fabs(t13)) * t11, (t14 ? t13 : detail::std::copysign(t12, y)) * t11);
}
}  // namespace numjit_complex
namespace numjit_standard { using numjit_complex::sqrt; }
//@
//@ sinh sin
namespace numjit_complex {
template <class R>
NUMJIT_INLINE complex<R> sinh(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  const R t1 = detail::std::sinh(x);
  if (y == R(0)) return complex<R>(t1, y);
  const R t2 = detail::std::cos(y);
  const R t3 = detail::std::sin(y);
  if (x == R(0)) return complex<R>(x * (t2 == t2 ? t2 : R(1)), t3);
  const R t4 = detail::std::fabs(x);
  if (t4 == R(HUGE_VAL) && !(detail::std::fabs(y) < R(HUGE_VAL))) return complex<R>(t4, R(NAN));
  const R t5 = detail::std::cosh(x);
  if (!(detail::std::fabs(t5) == R(HUGE_VAL) && t4 < R(HUGE_VAL))) return complex<R>(t1 * t2, t5 * t3);
  const R t6 = detail::std::exp(t4);
  R t7, t8;
  if (detail::std::fabs(t6) < R(HUGE_VAL)) {
    t7 = t6 * t2;
    t8 = t6 * t3;
  } else {
    const R t9 = detail::std::exp(t4 * R(0.5));
    t7 = t9 * t2 * t9;
    t8 = t9 * t3 * t9;
  }
  return complex<R>(detail::std::copysign(R(1), x) * (t7 * R(0.5)), t8 * R(0.5));
}
}  // namespace numjit_complex
namespace numjit_standard { using numjit_complex::sinh; }
//@
//@ cosh cos
namespace numjit_complex {
template <class R>
NUMJIT_INLINE complex<R> cosh(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  const R t1 = detail::std::cosh(x);
  const R t2 = detail::std::copysign(R(1), x);
  if (y == R(0)) return complex<R>(t1, t2 * y);
  const R t3 = detail::std::cos(y);
  const R t4 = detail::std::sin(y);
  if (x == R(0)) return complex<R>(t3, x * (t3 == t3 ? t4 : R(1)));
  const R t5 = detail::std::fabs(x);
  if (t5 == R(HUGE_VAL) && !(detail::std::fabs(y) < R(HUGE_VAL))) return complex<R>(t5, R(NAN));
  if (!(detail::std::fabs(t1) == R(HUGE_VAL) && t5 < R(HUGE_VAL))) return complex<R>(t1 * t3, detail::std::sinh(x) * t4);
  const R t6 = detail::std::exp(t5);
  R t7, t8;
  if (detail::std::fabs(t6) < R(HUGE_VAL)) {
    t7 = t6 * t3;
    t8 = t6 * t4;
  } else {
    const R t9 = detail::std::exp(t5 * R(0.5));
    t7 = t9 * t3 * t9;
    t8 = t9 * t4 * t9;
  }
  return complex<R>(t7 * R(0.5), t2 * (t8 * R(0.5)));
}
}  // namespace numjit_complex
namespace numjit_standard { using numjit_complex::cosh; }
//@
//@ tanh tan
namespace numjit_complex {
template <class R>
NUMJIT_INLINE complex<R> tanh(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  if (y == R(0)) return complex<R>(detail::std::tanh(x), y);
  const bool t1 = detail::std::fabs(y) < R(HUGE_VAL);
  if (x == R(0) && !t1) return complex<R>(x, R(NAN));
  const R t2 = detail::std::sin(y) * detail::std::cos(y);
  const R t3 = detail::std::fabs(x);
  const R t4 = detail::std::copysign(R(1), x);
  if (t3 == R(HUGE_VAL)) return complex<R>(t4, detail::std::copysign(R(0), t1 ? t2 : y));
  if (t3 > R(sizeof(R) == 4 ? 11 : 22)) {
    const R t5 = detail::std::exp(-t3);
    return complex<R>(t1 ? t4 : R(NAN), t2 * R(4) * t5 * t5);
  }
  const R t6 = detail::std::tan(y);
  const R t7 = detail::std::sinh(x);
  const R t8 = t7 * t7;
  const R t9 = t6 * t6 + R(1);
  const R t10 = R(1) / (t9 * t8 + R(1));
  return complex<R>(t9 * detail::std::sqrt(t8 + R(1)) * t7 * t10, t6 * t10);
}
}  // namespace numjit_complex
namespace numjit_standard { using numjit_complex::tanh; }
//@
//@ sin
namespace numjit_complex {
template <class R>
NUMJIT_INLINE complex<R> sin(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  const complex<R> t1 = sinh(complex<R>(-y, x));
  return complex<R>(t1.imag(), -t1.real());
}
}  // namespace numjit_complex
namespace numjit_standard { using numjit_complex::sin; }
//@
//@ cos
namespace numjit_complex {
template <class R>
NUMJIT_INLINE complex<R> cos(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  const complex<R> t1 = cosh(complex<R>(-y, x));
  return complex<R>(t1.real(), t1.imag());
}
}  // namespace numjit_complex
namespace numjit_standard { using numjit_complex::cos; }
//@
//@ tan
namespace numjit_complex {
template <class R>
NUMJIT_INLINE complex<R> tan(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  const complex<R> t1 = tanh(complex<R>(-y, x));
  return complex<R>(t1.imag(), -t1.real());
}
}  // namespace numjit_complex
namespace numjit_standard { using numjit_complex::tan; }
//@
//@ asin asinh
namespace numjit_complex {
template <class R>
NUMJIT_INLINE complex<R> asin(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  if (x == R(0) && y != y) return complex<R>(x, y);
  const R t1 = detail::std::fabs(y);
  if (detail::std::fabs(x) > R(sizeof(R) == 4 ? 4.2535293329816107e+37 : 2.2471164185778946e+307) || t1 > R(sizeof(R) == 4 ? 4.2535293329816107e+37 : 2.2471164185778946e+307)) return complex<R>(detail::std::atan2(x, t1), detail::std::copysign(detail::std::log(detail::std::hypot(x * R(0.125), y * R(0.125))) + R(2.772588722239781), y));
  const complex<R> t2 = sqrt(complex<R>(R(1) - x, -y));
  const complex<R> t3 = sqrt(complex<R>(x + R(1), y));
  return complex<R>(detail::std::atan2(x, t2.real() * t3.real() - t2.imag() * t3.imag()), detail::std::asinh(t2.real() * t3.imag() - t2.imag() * t3.real()));
}
}  // namespace numjit_complex
namespace numjit_standard { using numjit_complex::asin; }
//@
//@ acos
namespace numjit_complex {
template <class R>
NUMJIT_INLINE complex<R> acos(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  if (x == R(0) && y != y) return complex<R>(R(1.5707963267948966), y);
  const R t1 = -y;
  const R t2 = detail::std::fabs(y);
  if (detail::std::fabs(x) > R(sizeof(R) == 4 ? 4.2535293329816107e+37 : 2.2471164185778946e+307) || t2 > R(sizeof(R) == 4 ? 4.2535293329816107e+37 : 2.2471164185778946e+307)) return complex<R>(detail::std::atan2(t2, x), detail::std::copysign(detail::std::log(detail::std::hypot(x * R(0.125), y * R(0.125))) + R(2.772588722239781), t1));
  const complex<R> t3 = sqrt(complex<R>(R(1) - x, t1));
  const complex<R> t4 = sqrt(complex<R>(x + R(1), y));
  return complex<R>(detail::std::atan2(t3.real(), t4.real()) * R(2), detail::std::asinh(t4.real() * t3.imag() - t4.imag() * t3.real()));
}
}  // namespace numjit_complex
namespace numjit_standard { using numjit_complex::acos; }
//@
//@ atan
namespace numjit_complex {
template <class R>
NUMJIT_INLINE complex<R> atan(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  const complex<R> t1 = atanh(complex<R>(-y, x));
  return complex<R>(t1.imag(), -t1.real());
}
}  // namespace numjit_complex
namespace numjit_standard { using numjit_complex::atan; }
//@
//@ asinh
namespace numjit_complex {
template <class R>
NUMJIT_INLINE complex<R> asinh(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  const complex<R> t1 = asin(complex<R>(-y, x));
  return complex<R>(t1.imag(), -t1.real());
}
}  // namespace numjit_complex
namespace numjit_standard { using numjit_complex::asinh; }
//@
//@ acosh
namespace numjit_complex {
template <class R>
NUMJIT_INLINE complex<R> acosh(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  if (x == R(0) && y != y) return complex<R>(y, R(1.5707963267948966));
  if (detail::std::fabs(x) > R(sizeof(R) == 4 ? 4.2535293329816107e+37 : 2.2471164185778946e+307) || detail::std::fabs(y) > R(sizeof(R) == 4 ? 4.2535293329816107e+37 : 2.2471164185778946e+307)) return complex<R>(detail::std::log(detail::std::hypot(x * R(0.125), y * R(0.125))) + R(2.772588722239781), detail::std::atan2(y, x));
  const complex<R> t1 = sqrt(complex<R>(x - R(1), y));
  const complex<R> t2 = sqrt(complex<R>(x + R(1), y));
  return complex<R>(detail::std::asinh(t1.real() * t2.real() + t1.imag() * t2.imag()), detail::std::atan2(t1.imag(), t2.real()) * R(2));
}
}  // namespace numjit_complex
namespace numjit_standard { using numjit_complex::acosh; }
//@
//@ atanh atan
namespace numjit_complex {
template <class R>
NUMJIT_INLINE complex<R> atanh(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  const R t1 = detail::std::fabs(x);
  const R t2 = detail::std::fabs(y);
  const R t3 = R(1) - t1;
  const R t4 = y * y;
  const bool t5 = t3 == R(0) && t2 < R(sizeof(R) == 4 ? 1.0842021724855044e-19 : 1.4916681462400413e-154);
  const bool t6 = t1 > R(sizeof(R) == 4 ? 4.6116858809884324e+18 : 3.351951982485649e+153) || t2 > R(sizeof(R) == 4 ? 4.6116858809884324e+18 : 3.351951982485649e+153);
  const bool t7 = t2 == R(HUGE_VAL);
  R t8;
  if (x == R(0)) {
    t8 = t1;
  } else {
    R t9;
    if (t6) {
      R t10;
      if (t1 == R(HUGE_VAL) || t7) {
        t10 = R(0);
      } else {
        const bool t11 = t1 > t2;
        const R t12 = (t11 ? y : x) / (t11 ? x : y);
        t10 = (t11 ? R(1) / x : t12 / y) / (t12 * t12 + R(1));
      }
      t9 = t10;
    } else {
      t9 = t5 ? (R(0.6931471805599453) - detail::std::log(t2)) * R(0.5) : detail::std::log1p(t1 * R(4) / (t3 * t3 + t4)) * R(0.25);
    }
    t8 = t9;
  }
  return complex<R>(detail::std::copysign(t8, x), t6 ? (t7 || (x == x && y == y) ? detail::std::copysign(R(1.5707963267948966), y) : R(NAN)) : t5 ? (y == R(0) ? y : detail::std::copysign(R(0.7853981633974483), y)) : detail::std::atan2(y * R(2), t3 * (t1 + R(1)) - t4) * R(0.5));
}
}  // namespace numjit_complex
namespace numjit_standard { using numjit_complex::atanh; }
//@
//@ log2
namespace numjit_complex {
template <class R>
NUMJIT_INLINE complex<R> log2(const complex<R>& z) {
  const R x = z.real(), y = z.imag();
  const complex<R> t1 = log(complex<R>(x, y));
  return complex<R>(t1.real() * R(1.4426950408889634), t1.imag() * R(1.4426950408889634));
}
}  // namespace numjit_complex
namespace numjit_standard { using numjit_complex::log2; }
//@
//@ pow
namespace numjit_complex {
namespace detail {
template <class R>
NUMJIT_INLINE complex<R> power(const complex<R>& z, const complex<R>& w) {
  const R x = z.real(), y = z.imag(), u = w.real(), v = w.imag();
  const bool t1 = v == R(0);
  const bool t2 = u == R(0);
  if (t2 && t1) return complex<R>(R(1), R(0));
  if (x == R(0) && y == R(0)) {
    const bool t3 = u > R(0);
    return complex<R>(t3 ? R(0) : t1 ? R(HUGE_VAL) : R(NAN), t3 ? R(0) : R(NAN));
  }
  const complex<R> t4 = log(complex<R>(x, y));
  const R t5 = u * t4.imag();
  const R t6 = -(v * t4.imag());
  const complex<R> t7 = exp(complex<R>(t2 ? t6 : u * t4.real() + t6, t1 ? t5 : t5 + v * t4.real()));
  return complex<R>(t7.real(), t7.imag());
}
}  // namespace detail
}  // namespace numjit_complex
namespace numjit_standard { using numjit_complex::pow; }
//@
#undef NUMJIT_INLINE
