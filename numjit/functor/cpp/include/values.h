// Functions whose value numjit computes itself: those of CUDA for the CPU, and those of namespace numjit.
// Written by `python -m numjit.rules.cpp_values`; the formulas stand in numjit/rules/special.py.
// Follows core.h. Lines from "//@ words" to "//@" are left out of programs that use none of the words.
#define NUMJIT_VALUES
#ifdef __CUDACC_RTC__
#define NUMJIT_INLINE __forceinline__
#else
#define NUMJIT_INLINE inline
#endif
namespace numjit_special {
template <class... S>
using real_of =
    ::numjit_standard::conditional_t<(::numjit_standard::is_same_v<S, float> && ...), float, double>;
template <class... S>
using if_numbers =
    ::numjit_standard::enable_if_t<(::numjit_standard::is_arithmetic_v<S> && ...), real_of<S...>>;
#ifdef __CUDACC_RTC__
namespace std { using ::copysign; using ::cospi; using ::erfc; using ::erfcx; using ::exp; using ::fabs; using ::log; using ::log1p; using ::normcdf; using ::pow; using ::sin; using ::sinpi; using ::sqrt; using ::tgamma; using ::trunc; }
#else
namespace std = ::std;
template <class R>
NUMJIT_INLINE R rsqrt(R x) {
  return R(1) / std::sqrt(x);
}
template <class R>
NUMJIT_INLINE R rcbrt(R x) {
  return R(1) / std::cbrt(x);
}
template <class R>
NUMJIT_INLINE R exp10(R x) {
  return std::pow(R(10), x);
}
template <class R>
NUMJIT_INLINE R sinpi(R x) {
  const R t1 = std::fabs(x);
  const R t2 = t1 - std::floor(t1 * R(0.5)) * R(2);
  const R t3 = t2 > R(1) ? t2 - R(2) : t2;
  return std::sin((t3 > R(0.5) ? R(1) - t3 : t3 < R(-0.5) ? R(-1) - t3 : t3) * R(3.141592653589793)) * std::copysign(R(1), x);
}
template <class R>
NUMJIT_INLINE R cospi(R x) {
  const R t1 = std::fabs(x);
  const R t2 = t1 - std::floor(t1 * R(0.5)) * R(2);
  const R t3 = t2 > R(1) ? R(2) - t2 : t2;
  if (t3 > R(0.25) && t3 < R(0.75)) return std::sin((R(0.5) - t3) * R(3.141592653589793));
  return std::cos(t3 * R(3.141592653589793));
}
NUMJIT_INLINE float erfinv(float x) {
  using R = float;
  const R t1 = std::fabs(x);
  R t2;
  if (t1 == R(1)) {
    t2 = R(HUGE_VAL);
  } else {
    const R t3 = R(1) - t1;
    const bool t4 = t1 <= R(0.7);
    R t5;
    if (t4) {
      const R t6 = t1 * t1;
      t5 = t1 * (((R(-0.140543331) * t6 + R(0.914624893)) * t6 + R(-1.645349621)) * t6 + R(0.886226899)) / ((((R(0.012229801) * t6 + R(-0.329097515)) * t6 + R(1.442710462)) * t6 + R(-2.118377725)) * t6 + R(1));
    } else {
      const R t7 = std::sqrt(-std::log(t3 * R(0.5)));
      t5 = (((R(1.641345311) * t7 + R(3.429567803)) * t7 + R(-1.624906493)) * t7 + R(-1.970840454)) / ((R(1.6370678) * t7 + R(3.5438892)) * t7 + R(1));
    }
    const R t8 = (t4 ? std::erf(t5) - t1 : t3 - std::erfc(t5)) / (std::exp(-(t5 * t5)) * R(1.1283791670955126));
    t2 = t5 - t8 / (t5 * t8 + R(1));
  }
  return std::copysign(t2, x);
}
NUMJIT_INLINE double erfinv(double x) {
  using R = double;
  const R t1 = std::fabs(x);
  R t2;
  if (t1 == R(1)) {
    t2 = R(HUGE_VAL);
  } else {
    const R t3 = R(1) - t1;
    const bool t4 = t1 <= R(0.7);
    R t5;
    if (t4) {
      const R t6 = t1 * t1;
      t5 = t1 * (((R(-0.140543331) * t6 + R(0.914624893)) * t6 + R(-1.645349621)) * t6 + R(0.886226899)) / ((((R(0.012229801) * t6 + R(-0.329097515)) * t6 + R(1.442710462)) * t6 + R(-2.118377725)) * t6 + R(1));
    } else {
      const R t7 = std::sqrt(-std::log(t3 * R(0.5)));
      t5 = (((R(1.641345311) * t7 + R(3.429567803)) * t7 + R(-1.624906493)) * t7 + R(-1.970840454)) / ((R(1.6370678) * t7 + R(3.5438892)) * t7 + R(1));
    }
    const R t8 = (t4 ? std::erf(t5) - t1 : t3 - std::erfc(t5)) / (std::exp(-(t5 * t5)) * R(1.1283791670955126));
    const R t9 = t5 - t8 / (t5 * t8 + R(1));
    const R t10 = (t4 ? std::erf(t9) - t1 : t3 - std::erfc(t9)) / (std::exp(-(t9 * t9)) * R(1.1283791670955126));
    const R t11 = t9 - t10 / (t9 * t10 + R(1));
    const R t12 = (t4 ? std::erf(t11) - t1 : t3 - std::erfc(t11)) / (std::exp(-(t11 * t11)) * R(1.1283791670955126));
    t2 = t11 - t12 / (t11 * t12 + R(1));
  }
  return std::copysign(t2, x);
}
template <class R>
NUMJIT_INLINE R erfcx(R x) {
  if (x < R(-27)) return R(HUGE_VAL);
  if (x > R(sizeof(R) == 4 ? 8 : 25)) {
    const R t1 = R(0.5) / x / x;
    return R(0.5641895835477563) / x * (R(1) - t1 * R(1) * (R(1) - t1 * R(3) * (R(1) - t1 * R(5) * (R(1) - t1 * R(7) * (R(1) - t1 * R(9) * (R(1) - t1 * R(11) * (R(1) - t1 * R(13) * R(1))))))));
  }
  const R t2 = x * x;
  return std::exp(t2) * (std::fma(x, x, -t2) + R(1)) * std::erfc(x);
}
NUMJIT_INLINE float erfcinv(float x) {
  using R = float;
  if (x == R(0)) return R(HUGE_VAL);
  if (x == R(2)) return -R(HUGE_VAL);
  if (x < R(0.0625)) {
    const R t1 = std::log(x);
    const R t2 = std::sqrt(R(0.6931471805599453) - t1);
    const R t3 = (((R(1.641345311) * t2 + R(3.429567803)) * t2 + R(-1.624906493)) * t2 + R(-1.970840454)) / ((R(1.6370678) * t2 + R(3.5438892)) * t2 + R(1));
    const R t4 = erfcx(t3);
    const R t5 = t3 + (std::log(t4) - t3 * t3 - t1) * t4 / R(1.1283791670955126);
    const R t6 = erfcx(t5);
    return t5 + (std::log(t6) - t5 * t5 - t1) * t6 / R(1.1283791670955126);
  }
  const bool t7 = x > R(1);
  const R t8 = t7 ? R(2) - x : x;
  const R t9 = t7 ? x - R(1) : R(1) - x;
  const bool t10 = t9 <= R(0.7);
  R t11;
  if (t10) {
    const R t12 = t9 * t9;
    t11 = t9 * (((R(-0.140543331) * t12 + R(0.914624893)) * t12 + R(-1.645349621)) * t12 + R(0.886226899)) / ((((R(0.012229801) * t12 + R(-0.329097515)) * t12 + R(1.442710462)) * t12 + R(-2.118377725)) * t12 + R(1));
  } else {
    const R t13 = std::sqrt(-std::log(t8 * R(0.5)));
    t11 = (((R(1.641345311) * t13 + R(3.429567803)) * t13 + R(-1.624906493)) * t13 + R(-1.970840454)) / ((R(1.6370678) * t13 + R(3.5438892)) * t13 + R(1));
  }
  const R t14 = (t10 ? std::erf(t11) - t9 : t8 - std::erfc(t11)) / (std::exp(-(t11 * t11)) * R(1.1283791670955126));
  const R t15 = t11 - t14 / (t11 * t14 + R(1));
  return t7 ? -t15 : t15;
}
NUMJIT_INLINE double erfcinv(double x) {
  using R = double;
  if (x == R(0)) return R(HUGE_VAL);
  if (x == R(2)) return -R(HUGE_VAL);
  if (x < R(0.0625)) {
    const R t1 = std::log(x);
    const R t2 = std::sqrt(R(0.6931471805599453) - t1);
    const R t3 = (((R(1.641345311) * t2 + R(3.429567803)) * t2 + R(-1.624906493)) * t2 + R(-1.970840454)) / ((R(1.6370678) * t2 + R(3.5438892)) * t2 + R(1));
    const R t4 = erfcx(t3);
    const R t5 = t3 + (std::log(t4) - t3 * t3 - t1) * t4 / R(1.1283791670955126);
    const R t6 = erfcx(t5);
    const R t7 = t5 + (std::log(t6) - t5 * t5 - t1) * t6 / R(1.1283791670955126);
    const R t8 = erfcx(t7);
    return t7 + (std::log(t8) - t7 * t7 - t1) * t8 / R(1.1283791670955126);
  }
  const bool t9 = x > R(1);
  const R t10 = t9 ? R(2) - x : x;
  const R t11 = t9 ? x - R(1) : R(1) - x;
  const bool t12 = t11 <= R(0.7);
  R t13;
  if (t12) {
    const R t14 = t11 * t11;
    t13 = t11 * (((R(-0.140543331) * t14 + R(0.914624893)) * t14 + R(-1.645349621)) * t14 + R(0.886226899)) / ((((R(0.012229801) * t14 + R(-0.329097515)) * t14 + R(1.442710462)) * t14 + R(-2.118377725)) * t14 + R(1));
  } else {
    const R t15 = std::sqrt(-std::log(t10 * R(0.5)));
    t13 = (((R(1.641345311) * t15 + R(3.429567803)) * t15 + R(-1.624906493)) * t15 + R(-1.970840454)) / ((R(1.6370678) * t15 + R(3.5438892)) * t15 + R(1));
  }
  const R t16 = (t12 ? std::erf(t13) - t11 : t10 - std::erfc(t13)) / (std::exp(-(t13 * t13)) * R(1.1283791670955126));
  const R t17 = t13 - t16 / (t13 * t16 + R(1));
  const R t18 = (t12 ? std::erf(t17) - t11 : t10 - std::erfc(t17)) / (std::exp(-(t17 * t17)) * R(1.1283791670955126));
  const R t19 = t17 - t18 / (t17 * t18 + R(1));
  const R t20 = (t12 ? std::erf(t19) - t11 : t10 - std::erfc(t19)) / (std::exp(-(t19 * t19)) * R(1.1283791670955126));
  const R t21 = t19 - t20 / (t19 * t20 + R(1));
  return t9 ? -t21 : t21;
}
template <class R>
NUMJIT_INLINE R normcdf(R x) {
  if (std::fabs(x) > R(40)) return x > R(0) ? R(1) : R(0);
  const R t1 = -(x * R(0.7071067811865476));
  return (std::erfc(t1) - (std::fma(-x, R(0.7071067811865476), -t1) - x * R(sizeof(R) == 4 ? 1.210161710447897e-08 : -4.833646656726457e-17)) * R(1.1283791670955126) * std::exp(-(t1 * t1))) * R(0.5);
}
template <class R>
NUMJIT_INLINE R normcdfinv(R x) {
  return erfcinv(x * R(2)) * R(-1.4142135623730951);
}
NUMJIT_INLINE float cyl_bessel_i0(float given) {
  using R = float;
  const R t1 = std::fabs(given);
  if (t1 == R(HUGE_VAL)) return t1;
  R t2;
  if (t1 <= R(8)) {
    const R t3 = t1 * R(0.5) - R(2);
    const R t4 = t3 * R(2.6598237246823866e-09) - R(0) + R(-1.300025009986248e-08);
    const R t5 = t3 * t4 - R(2.6598237246823866e-09) + R(6.046995022541919e-08);
    const R t6 = t3 * t5 - t4 + R(-2.670793853940612e-07);
    const R t7 = t3 * t6 - t5 + R(1.1173875391201037e-06);
    const R t8 = t3 * t7 - t6 + R(-4.4167383584587505e-06);
    const R t9 = t3 * t8 - t7 + R(1.6448448070728896e-05);
    const R t10 = t3 * t9 - t8 + R(-5.754195010082104e-05);
    const R t11 = t3 * t10 - t9 + R(0.00018850288509584165);
    const R t12 = t3 * t11 - t10 + R(-0.0005763755745385824);
    const R t13 = t3 * t12 - t11 + R(0.0016394756169413357);
    const R t14 = t3 * t13 - t12 + R(-0.004324309995050576);
    const R t15 = t3 * t14 - t13 + R(0.010546460394594998);
    const R t16 = t3 * t15 - t14 + R(-0.02373741480589947);
    const R t17 = t3 * t16 - t15 + R(0.04930528423967071);
    const R t18 = t3 * t17 - t16 + R(-0.09490109704804764);
    const R t19 = t3 * t18 - t17 + R(0.17162090152220877);
    t2 = (t3 * (t3 * t19 - t18 + R(-0.3046826723431984)) - t19 + R(0.6767952744094761) - t19) * R(0.5);
  } else {
    const R t20 = R(32) / t1 - R(2);
    const R t21 = t20 * R(3.3962320257083865e-09) - R(0) + R(2.266668990498178e-08);
    const R t22 = t20 * t21 - R(3.3962320257083865e-09) + R(2.0489185894690638e-07);
    const R t23 = t20 * t22 - t21 + R(2.8913705208347567e-06);
    const R t24 = t20 * t23 - t22 + R(6.889758346916825e-05);
    t2 = (t20 * (t20 * t24 - t23 + R(0.0033691164782556943)) - t24 + R(0.8044904110141088) - t24) * R(0.5) / std::sqrt(t1);
  }
  return std::exp(t1) * t2;
}
NUMJIT_INLINE double cyl_bessel_i0(double given) {
  using R = double;
  const R t1 = std::fabs(given);
  if (t1 == R(HUGE_VAL)) return t1;
  R t2;
  if (t1 <= R(8)) {
    const R t3 = t1 * R(0.5) - R(2);
    const R t4 = t3 * R(-4.4153416464793395e-18) - R(0) + R(3.3307945188222384e-17);
    const R t5 = t3 * t4 - R(-4.4153416464793395e-18) + R(-2.431279846547955e-16);
    const R t6 = t3 * t5 - t4 + R(1.715391285555133e-15);
    const R t7 = t3 * t6 - t5 + R(-1.1685332877993451e-14);
    const R t8 = t3 * t7 - t6 + R(7.676185498604936e-14);
    const R t9 = t3 * t8 - t7 + R(-4.856446783111929e-13);
    const R t10 = t3 * t9 - t8 + R(2.95505266312964e-12);
    const R t11 = t3 * t10 - t9 + R(-1.726826291441556e-11);
    const R t12 = t3 * t11 - t10 + R(9.675809035373237e-11);
    const R t13 = t3 * t12 - t11 + R(-5.189795601635263e-10);
    const R t14 = t3 * t13 - t12 + R(2.6598237246823866e-09);
    const R t15 = t3 * t14 - t13 + R(-1.300025009986248e-08);
    const R t16 = t3 * t15 - t14 + R(6.046995022541919e-08);
    const R t17 = t3 * t16 - t15 + R(-2.670793853940612e-07);
    const R t18 = t3 * t17 - t16 + R(1.1173875391201037e-06);
    const R t19 = t3 * t18 - t17 + R(-4.4167383584587505e-06);
    const R t20 = t3 * t19 - t18 + R(1.6448448070728896e-05);
    const R t21 = t3 * t20 - t19 + R(-5.754195010082104e-05);
    const R t22 = t3 * t21 - t20 + R(0.00018850288509584165);
    const R t23 = t3 * t22 - t21 + R(-0.0005763755745385824);
    const R t24 = t3 * t23 - t22 + R(0.0016394756169413357);
    const R t25 = t3 * t24 - t23 + R(-0.004324309995050576);
    const R t26 = t3 * t25 - t24 + R(0.010546460394594998);
    const R t27 = t3 * t26 - t25 + R(-0.02373741480589947);
    const R t28 = t3 * t27 - t26 + R(0.04930528423967071);
    const R t29 = t3 * t28 - t27 + R(-0.09490109704804764);
    const R t30 = t3 * t29 - t28 + R(0.17162090152220877);
    t2 = (t3 * (t3 * t30 - t29 + R(-0.3046826723431984)) - t30 + R(0.6767952744094761) - t30) * R(0.5);
  } else {
    const R t31 = R(32) / t1 - R(2);
    const R t32 = t31 * R(-7.233180487874754e-18) - R(0) + R(-4.830504485944182e-18);
    const R t33 = t31 * t32 - R(-7.233180487874754e-18) + R(4.46562142029676e-17);
    const R t34 = t31 * t33 - t32 + R(3.461222867697461e-17);
    const R t35 = t31 * t34 - t33 + R(-2.8276239805165836e-16);
    const R t36 = t31 * t35 - t34 + R(-3.425485619677219e-16);
    const R t37 = t31 * t36 - t35 + R(1.7725601330565263e-15);
    const R t38 = t31 * t37 - t36 + R(3.8116806693526224e-15);
    const R t39 = t31 * t38 - t37 + R(-9.554846698828307e-15);
    const R t40 = t31 * t39 - t38 + R(-4.150569347287222e-14);
    const R t41 = t31 * t40 - t39 + R(1.54008621752141e-14);
    const R t42 = t31 * t41 - t40 + R(3.8527783827421426e-13);
    const R t43 = t31 * t42 - t41 + R(7.180124451383666e-13);
    const R t44 = t31 * t43 - t42 + R(-1.7941785315068062e-12);
    const R t45 = t31 * t44 - t43 + R(-1.3215811840447713e-11);
    const R t46 = t31 * t45 - t44 + R(-3.1499165279632416e-11);
    const R t47 = t31 * t46 - t45 + R(1.1889147107846439e-11);
    const R t48 = t31 * t47 - t46 + R(4.94060238822497e-10);
    const R t49 = t31 * t48 - t47 + R(3.3962320257083865e-09);
    const R t50 = t31 * t49 - t48 + R(2.266668990498178e-08);
    const R t51 = t31 * t50 - t49 + R(2.0489185894690638e-07);
    const R t52 = t31 * t51 - t50 + R(2.8913705208347567e-06);
    const R t53 = t31 * t52 - t51 + R(6.889758346916825e-05);
    t2 = (t31 * (t31 * t53 - t52 + R(0.0033691164782556943)) - t53 + R(0.8044904110141088) - t53) * R(0.5) / std::sqrt(t1);
  }
  return std::exp(t1) * t2;
}
NUMJIT_INLINE float cyl_bessel_i1(float given) {
  using R = float;
  const R t1 = std::fabs(given);
  R t2;
  if (t1 == R(HUGE_VAL)) {
    t2 = t1;
  } else {
    R t3;
    if (t1 <= R(8)) {
      const R t4 = t1 * R(0.5) - R(2);
      const R t5 = t4 * R(-1.8872497517228294e-09) - R(0) + R(9.381537386495773e-09);
      const R t6 = t4 * t5 - R(-1.8872497517228294e-09) + R(-4.445059128796328e-08);
      const R t7 = t4 * t6 - t5 + R(2.0032947535521353e-07);
      const R t8 = t4 * t7 - t6 + R(-8.568720264695455e-07);
      const R t9 = t4 * t8 - t7 + R(3.4702513081376785e-06);
      const R t10 = t4 * t9 - t8 + R(-1.3273163656039436e-05);
      const R t11 = t4 * t10 - t9 + R(4.781565107550054e-05);
      const R t12 = t4 * t11 - t10 + R(-0.00016176081582589674);
      const R t13 = t4 * t12 - t11 + R(0.0005122859561685758);
      const R t14 = t4 * t13 - t12 + R(-0.0015135724506312532);
      const R t15 = t4 * t14 - t13 + R(0.004156422944312888);
      const R t16 = t4 * t15 - t14 + R(-0.010564084894626197);
      const R t17 = t4 * t16 - t15 + R(0.024726449030626516);
      const R t18 = t4 * t17 - t16 + R(-0.05294598120809499);
      const R t19 = t4 * t18 - t17 + R(0.1026436586898471);
      t3 = (t4 * (t4 * t19 - t18 + R(-0.17641651835783406)) - t19 + R(0.25258718644363365) - t19) * R(0.5) * t1;
    } else {
      const R t20 = R(32) / t1 - R(2);
      const R t21 = t20 * R(-3.835380385964237e-09) - R(0) + R(-2.6314688468895196e-08);
      const R t22 = t20 * t21 - R(-3.835380385964237e-09) + R(-2.512236237870209e-07);
      const R t23 = t20 * t22 - t21 + R(-3.882564808877691e-06);
      const R t24 = t20 * t23 - t22 + R(-0.00011058893876262371);
      t3 = (t20 * (t20 * t24 - t23 + R(-0.009761097491361469)) - t24 + R(0.7785762350182801) - t24) * R(0.5) / std::sqrt(t1);
    }
    t2 = std::exp(t1) * t3;
  }
  return std::copysign(t2, given);
}
NUMJIT_INLINE double cyl_bessel_i1(double given) {
  using R = double;
  const R t1 = std::fabs(given);
  R t2;
  if (t1 == R(HUGE_VAL)) {
    t2 = t1;
  } else {
    R t3;
    if (t1 <= R(8)) {
      const R t4 = t1 * R(0.5) - R(2);
      const R t5 = t4 * R(2.7779141127610464e-18) - R(0) + R(-2.111421214358166e-17);
      const R t6 = t4 * t5 - R(2.7779141127610464e-18) + R(1.5536319577362005e-16);
      const R t7 = t4 * t6 - t5 + R(-1.1055969477353862e-15);
      const R t8 = t4 * t7 - t6 + R(7.600684294735408e-15);
      const R t9 = t4 * t8 - t7 + R(-5.042185504727912e-14);
      const R t10 = t4 * t9 - t8 + R(3.223793365945575e-13);
      const R t11 = t4 * t10 - t9 + R(-1.9839743977649436e-12);
      const R t12 = t4 * t11 - t10 + R(1.1736186298890901e-11);
      const R t13 = t4 * t12 - t11 + R(-6.663489723502027e-11);
      const R t14 = t4 * t13 - t12 + R(3.625590281552117e-10);
      const R t15 = t4 * t14 - t13 + R(-1.8872497517228294e-09);
      const R t16 = t4 * t15 - t14 + R(9.381537386495773e-09);
      const R t17 = t4 * t16 - t15 + R(-4.445059128796328e-08);
      const R t18 = t4 * t17 - t16 + R(2.0032947535521353e-07);
      const R t19 = t4 * t18 - t17 + R(-8.568720264695455e-07);
      const R t20 = t4 * t19 - t18 + R(3.4702513081376785e-06);
      const R t21 = t4 * t20 - t19 + R(-1.3273163656039436e-05);
      const R t22 = t4 * t21 - t20 + R(4.781565107550054e-05);
      const R t23 = t4 * t22 - t21 + R(-0.00016176081582589674);
      const R t24 = t4 * t23 - t22 + R(0.0005122859561685758);
      const R t25 = t4 * t24 - t23 + R(-0.0015135724506312532);
      const R t26 = t4 * t25 - t24 + R(0.004156422944312888);
      const R t27 = t4 * t26 - t25 + R(-0.010564084894626197);
      const R t28 = t4 * t27 - t26 + R(0.024726449030626516);
      const R t29 = t4 * t28 - t27 + R(-0.05294598120809499);
      const R t30 = t4 * t29 - t28 + R(0.1026436586898471);
      t3 = (t4 * (t4 * t30 - t29 + R(-0.17641651835783406)) - t30 + R(0.25258718644363365) - t30) * R(0.5) * t1;
    } else {
      const R t31 = R(32) / t1 - R(2);
      const R t32 = t31 * R(7.517296310842105e-18) - R(0) + R(4.414348323071708e-18);
      const R t33 = t31 * t32 - R(7.517296310842105e-18) + R(-4.6503053684893586e-17);
      const R t34 = t31 * t33 - t32 + R(-3.209525921993424e-17);
      const R t35 = t31 * t34 - t33 + R(2.96262899764595e-16);
      const R t36 = t31 * t35 - t34 + R(3.3082023109209285e-16);
      const R t37 = t31 * t36 - t35 + R(-1.8803547755107825e-15);
      const R t38 = t31 * t37 - t36 + R(-3.8144030724370075e-15);
      const R t39 = t31 * t38 - t37 + R(1.0420276984128802e-14);
      const R t40 = t31 * t39 - t38 + R(4.272440016711951e-14);
      const R t41 = t31 * t40 - t39 + R(-2.1015418427726643e-14);
      const R t42 = t31 * t41 - t40 + R(-4.0835511110921974e-13);
      const R t43 = t31 * t42 - t41 + R(-7.198551776245908e-13);
      const R t44 = t31 * t43 - t42 + R(2.0356285441470896e-12);
      const R t45 = t31 * t44 - t43 + R(1.4125807436613782e-11);
      const R t46 = t31 * t45 - t44 + R(3.2526035830154884e-11);
      const R t47 = t31 * t46 - t45 + R(-1.8974958123505413e-11);
      const R t48 = t31 * t47 - t46 + R(-5.589743462196584e-10);
      const R t49 = t31 * t48 - t47 + R(-3.835380385964237e-09);
      const R t50 = t31 * t49 - t48 + R(-2.6314688468895196e-08);
      const R t51 = t31 * t50 - t49 + R(-2.512236237870209e-07);
      const R t52 = t31 * t51 - t50 + R(-3.882564808877691e-06);
      const R t53 = t31 * t52 - t51 + R(-0.00011058893876262371);
      t3 = (t31 * (t31 * t53 - t52 + R(-0.009761097491361469)) - t53 + R(0.7785762350182801) - t53) * R(0.5) / std::sqrt(t1);
    }
    t2 = std::exp(t1) * t3;
  }
  return std::copysign(t2, given);
}
#endif
}  // namespace numjit_special
//@ sinc
namespace numjit_special {
template <class R>
NUMJIT_INLINE R sinc(R x) {
  if (x == R(0)) return R(1);
  const R t1 = x * R(3.141592653589793);
  return std::sin(t1) / t1;
}
}  // namespace numjit_special
namespace numjit_scope {
namespace numjit {
template <class S0>
NUMJIT_INLINE ::numjit_special::if_numbers<S0> sinc(S0 x0) {
  using R = ::numjit_special::if_numbers<S0>;
  return ::numjit_special::sinc(static_cast<R>(x0));
}
}
}  // namespace numjit_scope
//@
//@ xlogy
namespace numjit_special {
template <class R>
NUMJIT_INLINE R xlogy(R x, R y) {
  return x == R(0) && y == y ? R(0) : x * std::log(y);
}
}  // namespace numjit_special
namespace numjit_scope {
namespace numjit {
template <class S0, class S1>
NUMJIT_INLINE ::numjit_special::if_numbers<S0, S1> xlogy(S0 x0, S1 x1) {
  using R = ::numjit_special::if_numbers<S0, S1>;
  return ::numjit_special::xlogy(static_cast<R>(x0), static_cast<R>(x1));
}
}
}  // namespace numjit_scope
//@
//@ logaddexp
namespace numjit_special {
template <class R>
NUMJIT_INLINE R logaddexp(R x, R y) {
  if (x == y && std::fabs(x) == R(HUGE_VAL)) return x;
  return (x > y ? x : y) + std::log1p(std::exp(-std::fabs(x - y)));
}
}  // namespace numjit_special
namespace numjit_scope {
namespace numjit {
template <class S0, class S1>
NUMJIT_INLINE ::numjit_special::if_numbers<S0, S1> logaddexp(S0 x0, S1 x1) {
  using R = ::numjit_special::if_numbers<S0, S1>;
  return ::numjit_special::logaddexp(static_cast<R>(x0), static_cast<R>(x1));
}
}
}  // namespace numjit_scope
//@
//@ digamma
namespace numjit_special {
#ifdef __CUDACC_RTC__
template <class R>
NUMJIT_INLINE R digamma(R given) {
  const bool t1 = given <= R(-1);
  const R t2 = std::trunc(given);
  if (t1 && given == t2) return R(NAN);
  const R t3 = t1 ? R(1) - given : given;
  const bool t4 = t3 >= R(10);
  R t5;
  if (t4) {
    const R t6 = R(1) / (t3 * t3);
    t5 = std::log(t3) - R(0.5) / t3 - t6 * ((((((R(0.08333333333333333) * t6 + R(-0.021092796092796094)) * t6 + R(0.007575757575757576)) * t6 + R(-0.004166666666666667)) * t6 + R(0.003968253968253968)) * t6 + R(-0.008333333333333333)) * t6 + R(0.08333333333333333));
  } else {
    const R t7 = t4 ? R(1.5) : t3;
    const bool t8 = t7 < R(1);
    const R t9 = t8 ? t7 + R(1) : t7;
    const bool t10 = t9 < R(1);
    const R t11 = t10 ? t9 + R(1) : t9;
    const bool t12 = t11 > R(2);
    const R t13 = t12 ? t11 - R(1) : t11;
    const R t14 = t12 ? R(0) * t13 + R(1) : R(0);
    const R t15 = t12 ? R(1) * t13 : R(1);
    const bool t16 = t13 > R(2);
    const R t17 = t16 ? t13 - R(1) : t13;
    const R t18 = t16 ? t14 * t17 + t15 : t14;
    const R t19 = t16 ? t15 * t17 : t15;
    const bool t20 = t17 > R(2);
    const R t21 = t20 ? t17 - R(1) : t17;
    const R t22 = t20 ? t18 * t21 + t19 : t18;
    const R t23 = t20 ? t19 * t21 : t19;
    const bool t24 = t21 > R(2);
    const R t25 = t24 ? t21 - R(1) : t21;
    const R t26 = t24 ? t22 * t25 + t23 : t22;
    const R t27 = t24 ? t23 * t25 : t23;
    const bool t28 = t25 > R(2);
    const R t29 = t28 ? t25 - R(1) : t25;
    const R t30 = t28 ? t26 * t29 + t27 : t26;
    const R t31 = t28 ? t27 * t29 : t27;
    const bool t32 = t29 > R(2);
    const R t33 = t32 ? t29 - R(1) : t29;
    const R t34 = t32 ? t30 * t33 + t31 : t30;
    const R t35 = t32 ? t31 * t33 : t31;
    const bool t36 = t33 > R(2);
    const R t37 = t36 ? t33 - R(1) : t33;
    const R t38 = t36 ? t34 * t37 + t35 : t34;
    const R t39 = t36 ? t35 * t37 : t35;
    const bool t40 = t37 > R(2);
    const R t41 = t40 ? t37 - R(1) : t37;
    const R t42 = t41 - R(1.4616321446374059) - R(sizeof(R) == 4 ? 1.2438149938918909e-08 : 3.309564689176888e-10);
    const R t43 = t41 - R(1);
    t5 = t42 * R(0.9955816268920898) + t42 * ((((((R(-0.002071332116774595) * t43 + R(-0.04525132144873906)) * t43 + R(-0.28919126444774784)) * t43 + R(-0.6503185377089651)) * t43 + R(-0.3255503118680449)) * t43 + R(0.25479851061131553)) / ((((((R(-5.578984132167551e-07) * t43 + R(0.0021284987017821146)) * t43 + R(0.054151797245674226)) * t43 + R(0.43593529692665967)) * t43 + R(1.4606242909763516)) * t43 + R(2.076711702373047)) * t43 + R(1))) + (t40 ? t38 * t41 + t39 : t38) / (t40 ? t39 * t41 : t39) + (R(0) - (t8 ? R(1) / t7 : R(0)) - (t10 ? R(1) / t9 : R(0)));
  }
  if (!t1) return t5;
  const R t44 = given - t2;
  const R t45 = t44 < R(-0.5) ? t44 + R(1) : t44;
  return t5 - std::cospi(t45) / std::sinpi(t45) * R(3.141592653589793);
}
#else
template <class R>
NUMJIT_INLINE R digamma(R given) {
  const bool t1 = given <= R(-1);
  const R t2 = std::trunc(given);
  if (t1 && given == t2) return R(NAN);
  const R t3 = t1 ? R(1) - given : given;
  const bool t4 = t3 >= R(10);
  R t5;
  if (t4) {
    const R t6 = R(1) / (t3 * t3);
    t5 = std::log(t3) - R(0.5) / t3 - t6 * ((((((R(0.08333333333333333) * t6 + R(-0.021092796092796094)) * t6 + R(0.007575757575757576)) * t6 + R(-0.004166666666666667)) * t6 + R(0.003968253968253968)) * t6 + R(-0.008333333333333333)) * t6 + R(0.08333333333333333));
  } else {
    const R t7 = t4 ? R(1.5) : t3;
    const bool t8 = t7 < R(1);
    const R t9 = t8 ? t7 + R(1) : t7;
    const bool t10 = t9 < R(1);
    const R t11 = t10 ? t9 + R(1) : t9;
    const bool t12 = t11 > R(2);
    const R t13 = t12 ? t11 - R(1) : t11;
    const R t14 = t12 ? R(0) * t13 + R(1) : R(0);
    const R t15 = t12 ? R(1) * t13 : R(1);
    const bool t16 = t13 > R(2);
    const R t17 = t16 ? t13 - R(1) : t13;
    const R t18 = t16 ? t14 * t17 + t15 : t14;
    const R t19 = t16 ? t15 * t17 : t15;
    const bool t20 = t17 > R(2);
    const R t21 = t20 ? t17 - R(1) : t17;
    const R t22 = t20 ? t18 * t21 + t19 : t18;
    const R t23 = t20 ? t19 * t21 : t19;
    const bool t24 = t21 > R(2);
    const R t25 = t24 ? t21 - R(1) : t21;
    const R t26 = t24 ? t22 * t25 + t23 : t22;
    const R t27 = t24 ? t23 * t25 : t23;
    const bool t28 = t25 > R(2);
    const R t29 = t28 ? t25 - R(1) : t25;
    const R t30 = t28 ? t26 * t29 + t27 : t26;
    const R t31 = t28 ? t27 * t29 : t27;
    const bool t32 = t29 > R(2);
    const R t33 = t32 ? t29 - R(1) : t29;
    const R t34 = t32 ? t30 * t33 + t31 : t30;
    const R t35 = t32 ? t31 * t33 : t31;
    const bool t36 = t33 > R(2);
    const R t37 = t36 ? t33 - R(1) : t33;
    const R t38 = t36 ? t34 * t37 + t35 : t34;
    const R t39 = t36 ? t35 * t37 : t35;
    const bool t40 = t37 > R(2);
    const R t41 = t40 ? t37 - R(1) : t37;
    const R t42 = t41 - R(1.4616321446374059) - R(sizeof(R) == 4 ? 1.2438149938918909e-08 : 3.309564689176888e-10);
    const R t43 = t41 - R(1);
    t5 = t42 * R(0.9955816268920898) + t42 * ((((((R(-0.002071332116774595) * t43 + R(-0.04525132144873906)) * t43 + R(-0.28919126444774784)) * t43 + R(-0.6503185377089651)) * t43 + R(-0.3255503118680449)) * t43 + R(0.25479851061131553)) / ((((((R(-5.578984132167551e-07) * t43 + R(0.0021284987017821146)) * t43 + R(0.054151797245674226)) * t43 + R(0.43593529692665967)) * t43 + R(1.4606242909763516)) * t43 + R(2.076711702373047)) * t43 + R(1))) + (t40 ? t38 * t41 + t39 : t38) / (t40 ? t39 * t41 : t39) + (R(0) - (t8 ? R(1) / t7 : R(0)) - (t10 ? R(1) / t9 : R(0)));
  }
  if (!t1) return t5;
  const R t44 = given - t2;
  return t5 - R(1) / std::tan((t44 < R(-0.5) ? t44 + R(1) : t44) * R(3.141592653589793)) * R(3.141592653589793);
}
#endif
}  // namespace numjit_special
namespace numjit_scope {
namespace numjit {
template <class S0>
NUMJIT_INLINE ::numjit_special::if_numbers<S0> digamma(S0 x0) {
  using R = ::numjit_special::if_numbers<S0>;
  return ::numjit_special::digamma(static_cast<R>(x0));
}
}
}  // namespace numjit_scope
//@
//@ trigamma
namespace numjit_special {
#ifdef __CUDACC_RTC__
template <class R>
NUMJIT_INLINE R trigamma(R x) {
  const bool t1 = x < R(0.5);
  const R t2 = t1 ? R(1) - x : x;
  const R t3 = t2 + R(1);
  const R t4 = t3 + R(1);
  const R t5 = t4 + R(1);
  const R t6 = t5 + R(1);
  const R t7 = t6 + R(1);
  const R t8 = t7 + R(1);
  const R t9 = t8 + R(1);
  const R t10 = t9 + R(1);
  const R t11 = t10 + R(1);
  const R t12 = t11 + R(1);
  const R t13 = R(1) / (t12 * t12);
  const R t14 = R(0) + R(1) / (t2 * t2) + R(1) / (t3 * t3) + R(1) / (t4 * t4) + R(1) / (t5 * t5) + R(1) / (t6 * t6) + R(1) / (t7 * t7) + R(1) / (t8 * t8) + R(1) / (t9 * t9) + R(1) / (t10 * t10) + R(1) / (t11 * t11) + (R(0.5) / t12 + R(1) + t13 * ((((((R(1.1666666666666667) * t13 + R(-0.2531135531135531)) * t13 + R(0.07575757575757576)) * t13 + R(-0.03333333333333333)) * t13 + R(0.023809523809523808)) * t13 + R(-0.03333333333333333)) * t13 + R(0.16666666666666666))) / t12;
  if (!t1) return t14;
  const R t15 = R(3.141592653589793) / std::sinpi(x);
  return t15 * t15 - t14;
}
#else
template <class R>
NUMJIT_INLINE R trigamma(R x) {
  const bool t1 = x < R(0.5);
  const R t2 = t1 ? R(1) - x : x;
  const R t3 = t2 + R(1);
  const R t4 = t3 + R(1);
  const R t5 = t4 + R(1);
  const R t6 = t5 + R(1);
  const R t7 = t6 + R(1);
  const R t8 = t7 + R(1);
  const R t9 = t8 + R(1);
  const R t10 = t9 + R(1);
  const R t11 = t10 + R(1);
  const R t12 = t11 + R(1);
  const R t13 = R(1) / (t12 * t12);
  const R t14 = R(0) + R(1) / (t2 * t2) + R(1) / (t3 * t3) + R(1) / (t4 * t4) + R(1) / (t5 * t5) + R(1) / (t6 * t6) + R(1) / (t7 * t7) + R(1) / (t8 * t8) + R(1) / (t9 * t9) + R(1) / (t10 * t10) + R(1) / (t11 * t11) + (R(0.5) / t12 + R(1) + t13 * ((((((R(1.1666666666666667) * t13 + R(-0.2531135531135531)) * t13 + R(0.07575757575757576)) * t13 + R(-0.03333333333333333)) * t13 + R(0.023809523809523808)) * t13 + R(-0.03333333333333333)) * t13 + R(0.16666666666666666))) / t12;
  if (!t1) return t14;
  const R t15 = R(3.141592653589793) / sinpi(x);
  return t15 * t15 - t14;
}
#endif
}  // namespace numjit_special
namespace numjit_scope {
namespace numjit {
template <class S0>
NUMJIT_INLINE ::numjit_special::if_numbers<S0> trigamma(S0 x0) {
  using R = ::numjit_special::if_numbers<S0>;
  return ::numjit_special::trigamma(static_cast<R>(x0));
}
}
}  // namespace numjit_scope
//@
//@ log_ndtr
namespace numjit_special {
#ifdef __CUDACC_RTC__
template <class R>
NUMJIT_INLINE R log_ndtr(R x) {
  if (x < R(0)) return std::log(std::erfcx(x * R(-0.7071067811865476)) * R(0.5)) - x * x * R(0.5);
  return std::log1p(-std::normcdf(-x));
}
#else
template <class R>
NUMJIT_INLINE R log_ndtr(R x) {
  if (x < R(0)) return std::log(erfcx(x * R(-0.7071067811865476)) * R(0.5)) - x * x * R(0.5);
  return std::log1p(-normcdf(-x));
}
#endif
}  // namespace numjit_special
namespace numjit_scope {
namespace numjit {
template <class S0>
NUMJIT_INLINE ::numjit_special::if_numbers<S0> log_ndtr(S0 x0) {
  using R = ::numjit_special::if_numbers<S0>;
  return ::numjit_special::log_ndtr(static_cast<R>(x0));
}
}
}  // namespace numjit_scope
//@
//@ gammainc
namespace numjit_special {
NUMJIT_INLINE float gammainc(float a, float x) {
  using R = float;
  const bool t1 = a > R(0);
  const bool t2 = std::fabs(x) < R(HUGE_VAL);
  if ((x == R(0) && t1) || (a == R(HUGE_VAL) && x >= R(0) && t2)) return R(0);
  const bool t3 = std::fabs(a) < R(HUGE_VAL);
  const bool t4 = x > R(0);
  if ((a == R(0) && t4) || (x == R(HUGE_VAL) && a >= R(0) && t3)) return R(1);
  const bool t5 = t1 && t3 && t4 && t2;
  const R t6 = t5 ? a : R(NAN);
  const R t7 = t5 ? x : R(NAN);
  const R t8 = t7 - t6;
  const R t9 = t8 / t6;
  R t10;
  if (std::fabs(t9) < R(0.4)) {
    const R t11 = t9 / (t9 + R(2));
    const R t12 = t11 * t11;
    t10 = t9 * t11 - t11 * t12 * R(2) * ((((((((((((R(0.037037037037037035) * t12 + R(0.04)) * t12 + R(0.043478260869565216)) * t12 + R(0.047619047619047616)) * t12 + R(0.05263157894736842)) * t12 + R(0.058823529411764705)) * t12 + R(0.06666666666666667)) * t12 + R(0.07692307692307693)) * t12 + R(0.09090909090909091)) * t12 + R(0.1111111111111111)) * t12 + R(0.14285714285714285)) * t12 + R(0.2)) * t12 + R(0.3333333333333333));
  } else {
    t10 = t9 - std::log(t7 / t6);
  }
  const R t13 = R(1) / t6;
  const R t14 = -(t6 * t10);
  const R t15 = std::sqrt(t6 * R(6.283185307179586));
  R t16;
  if (t6 > R(100) && std::fabs(t8) < t6 * R(0.3)) {
    const R t17 = std::copysign(std::sqrt(t10 * R(2)), t9);
    t16 = std::erfc(-t17 * std::sqrt(t6 * R(0.5))) * R(0.5) - std::exp(t14) * ((((R(0.0007716049382716049) * t17 + R(-0.0026813271604938273)) * t17 + R(0.004133597883597883)) * t13 + ((((R(0.00020576131687242798) * t17 + R(-0.0009902263374485596)) * t17 + R(0.0026455026455026454)) * t17 + R(-0.003472222222222222)) * t17 + R(-0.001851851851851852))) * t13 + (((((((R(-2.185448510679992e-06) * t17 + R(3.919263178522438e-05)) * t17 + R(-0.0001787551440329218)) * t17 + R(0.0003527336860670194)) * t17 + R(0.0011574074074074073)) * t17 + R(-0.014814814814814815)) * t17 + R(0.08333333333333333)) * t17 + R(-0.3333333333333333))) / t15;
  } else {
    const R t18 = t6 + R(1);
    R t19;
    if (t6 > R(10)) {
      const R t20 = t13 * t13;
      t19 = std::exp(t14 - t13 * ((((((R(0.00641025641025641) * t20 + R(-0.0019175269175269176)) * t20 + R(0.0008417508417508417)) * t20 + R(-0.0005952380952380953)) * t20 + R(0.0007936507936507937)) * t20 + R(-0.002777777777777778)) * t20 + R(0.08333333333333333))) / t15;
    } else {
      t19 = std::pow(t7, t6) * std::exp(-t7) / std::tgamma(t18);
    }
    R t21;
    if (t7 < t6 + R(5)) {
      R t22 = R(1), t23 = R(1), t24 = t18;
      for (;;) {
        const R t25 = t23 * t7 / t24;
        const R t26 = t22 + t25;
        const R t27 = t24 + R(1);
        const bool t28 = t25 > t26 * R(2.9802322387695312e-08);
        t22 = t26;
        t23 = t25;
        t24 = t27;
        if (!t28) break;
      }
      t21 = t19 * t22;
    } else {
      const R t29 = R(1) / (t8 + R(1));
      R t30 = t29, t31 = R(HUGE_VAL), t32 = t29, t33 = R(1), t34 = R(1);
      for (;;) {
        const R t35 = t33 * (t6 - t33);
        const R t36 = t8 + (t33 * R(2) + R(1));
        const R t37 = R(1) / (t35 * t32 + t36);
        const R t38 = t36 + t35 / t31;
        const R t39 = t38 * t37;
        const R t40 = t30 * t39;
        const R t41 = t33 + R(1);
        const bool t42 = std::fabs(t39 - R(1)) > R(1.1920928955078125e-07);
        t30 = t40;
        t31 = t38;
        t32 = t37;
        t33 = t41;
        t34 = t39;
        if (!t42) break;
      }
      t21 = R(1) - t19 * t6 * t30;
    }
    t16 = t21;
  }
  return t16 > R(1) ? R(1) : t16;
}
NUMJIT_INLINE double gammainc(double a, double x) {
  using R = double;
  const bool t1 = a > R(0);
  const bool t2 = std::fabs(x) < R(HUGE_VAL);
  if ((x == R(0) && t1) || (a == R(HUGE_VAL) && x >= R(0) && t2)) return R(0);
  const bool t3 = std::fabs(a) < R(HUGE_VAL);
  const bool t4 = x > R(0);
  if ((a == R(0) && t4) || (x == R(HUGE_VAL) && a >= R(0) && t3)) return R(1);
  const bool t5 = t1 && t3 && t4 && t2;
  const R t6 = t5 ? a : R(NAN);
  const R t7 = t5 ? x : R(NAN);
  const R t8 = t7 - t6;
  const R t9 = t8 / t6;
  R t10;
  if (std::fabs(t9) < R(0.4)) {
    const R t11 = t9 / (t9 + R(2));
    const R t12 = t11 * t11;
    t10 = t9 * t11 - t11 * t12 * R(2) * ((((((((((((R(0.037037037037037035) * t12 + R(0.04)) * t12 + R(0.043478260869565216)) * t12 + R(0.047619047619047616)) * t12 + R(0.05263157894736842)) * t12 + R(0.058823529411764705)) * t12 + R(0.06666666666666667)) * t12 + R(0.07692307692307693)) * t12 + R(0.09090909090909091)) * t12 + R(0.1111111111111111)) * t12 + R(0.14285714285714285)) * t12 + R(0.2)) * t12 + R(0.3333333333333333));
  } else {
    t10 = t9 - std::log(t7 / t6);
  }
  const R t13 = R(1) / t6;
  const R t14 = -(t6 * t10);
  const R t15 = std::sqrt(t6 * R(6.283185307179586));
  R t16;
  if (t6 > R(100) && std::fabs(t8) < t6 * R(0.3)) {
    const R t17 = std::copysign(std::sqrt(t10 * R(2)), t9);
    t16 = std::erfc(-t17 * std::sqrt(t6 * R(0.5))) * R(0.5) - std::exp(t14) * ((((((((R(0.0002708782096718045) * t17 + R(-0.0005921664373536939)) * t17 + R(0.0005313079364639922)) * t13 + ((((R(6.797780477937208e-05) * t17 + R(-0.00019932570516188847)) * t17 + R(0.0002772753244959392)) * t17 + R(-6.972813758365857e-05)) * t17 + R(-0.00033679855336635813))) * t13 + ((((((R(1.1375726970678419e-05) * t17 + R(-3.968365047179435e-05)) * t17 + R(6.641498215465122e-05)) * t17 + R(-1.4638452578843418e-06)) * t17 + R(-0.0002990724803031902)) * t17 + R(0.0007840392217200666)) * t17 + R(-0.0008618882909167117))) * t13 + ((((((((R(1.4230900732435883e-06) * t17 + R(-5.6749528269915965e-06)) * t17 + R(1.1082654115347302e-05)) * t17 + R(-2.396505113867297e-07)) * t17 + R(-7.561801671883977e-05)) * t17 + R(0.00026772063206283885)) * t17 + R(-0.0004691894943952557)) * t17 + R(0.00022947209362139917)) * t17 + R(0.0006494341563786008))) * t13 + ((((((((((R(1.4280614206064242e-07) * t17 + R(-6.298992138380055e-07)) * t17 + R(1.3721957309062934e-06)) * t17 + R(3.423578734096138e-08)) * t17 + R(-1.2760635188618728e-05)) * t17 + R(5.2923448829120125e-05)) * t17 + R(-0.0001073665322636516)) * t17 + R(2.0093878600823047e-06)) * t17 + R(0.0007716049382716049)) * t17 + R(-0.0026813271604938273)) * t17 + R(0.004133597883597883))) * t13 + ((((((((((((R(1.1951628599778148e-08) * t17 + R(-5.752545603517705e-08)) * t17 + R(1.378633446915721e-07)) * t17 + R(4.647127802807434e-09)) * t17 + R(-1.6120900894563446e-06)) * t17 + R(7.64916091608111e-06)) * t17 + R(-1.8098550334489977e-05)) * t17 + R(-4.018775720164609e-07)) * t17 + R(0.00020576131687242798)) * t17 + R(-0.0009902263374485596)) * t17 + R(0.0026455026455026454)) * t17 + R(-0.003472222222222222)) * t17 + R(-0.001851851851851852))) * t13 + ((((((((((((((R(9.14769958223679e-10) * t17 + R(-4.382036018453353e-09)) * t17 + R(1.0261809784240309e-08)) * t17 + R(6.707853543401498e-09)) * t17 + R(-1.7665952736826078e-07)) * t17 + R(8.296711340953087e-07)) * t17 + R(-1.85406221071516e-06)) * t17 + R(-2.185448510679992e-06)) * t17 + R(3.919263178522438e-05)) * t17 + R(-0.0001787551440329218)) * t17 + R(0.0003527336860670194)) * t17 + R(0.0011574074074074073)) * t17 + R(-0.014814814814814815)) * t17 + R(0.08333333333333333)) * t17 + R(-0.3333333333333333))) / t15;
  } else {
    const R t18 = t6 + R(1);
    R t19;
    if (t6 > R(10)) {
      const R t20 = t13 * t13;
      t19 = std::exp(t14 - t13 * ((((((R(0.00641025641025641) * t20 + R(-0.0019175269175269176)) * t20 + R(0.0008417508417508417)) * t20 + R(-0.0005952380952380953)) * t20 + R(0.0007936507936507937)) * t20 + R(-0.002777777777777778)) * t20 + R(0.08333333333333333))) / t15;
    } else {
      t19 = std::pow(t7, t6) * std::exp(-t7) / std::tgamma(t18);
    }
    R t21;
    if (t7 < t6 + R(5)) {
      R t22 = R(1), t23 = R(1), t24 = t18;
      for (;;) {
        const R t25 = t23 * t7 / t24;
        const R t26 = t22 + t25;
        const R t27 = t24 + R(1);
        const bool t28 = t25 > t26 * R(5.551115123125783e-17);
        t22 = t26;
        t23 = t25;
        t24 = t27;
        if (!t28) break;
      }
      t21 = t19 * t22;
    } else {
      const R t29 = R(1) / (t8 + R(1));
      R t30 = t29, t31 = R(HUGE_VAL), t32 = t29, t33 = R(1), t34 = R(1);
      for (;;) {
        const R t35 = t33 * (t6 - t33);
        const R t36 = t8 + (t33 * R(2) + R(1));
        const R t37 = R(1) / (t35 * t32 + t36);
        const R t38 = t36 + t35 / t31;
        const R t39 = t38 * t37;
        const R t40 = t30 * t39;
        const R t41 = t33 + R(1);
        const bool t42 = std::fabs(t39 - R(1)) > R(2.220446049250313e-16);
        t30 = t40;
        t31 = t38;
        t32 = t37;
        t33 = t41;
        t34 = t39;
        if (!t42) break;
      }
      t21 = R(1) - t19 * t6 * t30;
    }
    t16 = t21;
  }
  return t16 > R(1) ? R(1) : t16;
}
}  // namespace numjit_special
namespace numjit_scope {
namespace numjit {
template <class S0, class S1>
NUMJIT_INLINE ::numjit_special::if_numbers<S0, S1> gammainc(S0 x0, S1 x1) {
  using R = ::numjit_special::if_numbers<S0, S1>;
  return ::numjit_special::gammainc(static_cast<R>(x0), static_cast<R>(x1));
}
}
}  // namespace numjit_scope
//@
#undef NUMJIT_INLINE
