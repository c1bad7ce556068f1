// SPDX-License-Identifier: Apache-2.0
// Zipf's distribution with exponents below 1, which neither the standard library nor absl has.
#pragma once

#include <cmath>
#include <cstdint>

namespace kv {

// A number in [0, 1) from 64 random bits.
inline double unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

// Ranks 1 to `count`, where rank k has a probability proportional to k^-exponent. The exponent is above 0, and not 1.
// Needs no table: rejection-inversion (W. Hörmann, G. Derflinger: Rejection-inversion to generate variates from
// monotone discrete distributions, ACM TOMACS 6 (3), 1996).
class Zipf {
 public:
  Zipf(std::uint64_t count, double exponent)
      : exponent_(exponent),
        count_(static_cast<double>(count)),
        low_(integral(1.5) - 1),
        high_(integral(count_ + 0.5)),
        sure_(2 - inverse(integral(2.5) - density(2))) {}

  // `random()` gives 64 random bits.
  template <typename Random>
  std::uint64_t operator()(Random&& random) const {
    while (true) {
      const double area = high_ + unit(random()) * (low_ - high_);
      const double x = inverse(area);
      const double rank = std::fmin(std::fmax(std::floor(x + 0.5), 1), count_);
      // The first test decides most cases, and it computes no power.
      if (rank - x <= sure_ || area >= integral(rank + 0.5) - density(rank)) return static_cast<std::uint64_t>(rank);
    }
  }

 private:
  double density(double x) const { return std::pow(x, -exponent_); }
  double integral(double x) const { return std::pow(x, 1 - exponent_) / (1 - exponent_); }
  double inverse(double area) const { return std::pow(area * (1 - exponent_), 1 / (1 - exponent_)); }

  double exponent_;
  double count_;
  double low_;   // areas are drawn from here
  double high_;  // to here
  double sure_;  // if x is this near to its rank, it needs no further test
};

}  // namespace kv
