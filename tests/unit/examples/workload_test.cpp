// SPDX-License-Identifier: Apache-2.0
// The workload of examples/kv: each distribution is the one that it claims to be.
#include "../../../examples/kv/workload.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

namespace {

constexpr std::uint64_t kSeeds = 5;
constexpr int kDraws = 500'000;
constexpr std::uint64_t kSingleRanks = 20;
// A correct sampler exceeds this chi-square value once in 100,000 runs, with 30 degrees of freedom.
constexpr double kCritical = 76.0;

// Ranks 1 to 20 one by one, the others in 11 groups.
class Bins {
 public:
  Bins(std::uint64_t count, double exponent) {
    const double step = std::log(static_cast<double>(count) / kSingleRanks) / 11;
    for (std::uint64_t rank = 1; rank <= kSingleRanks; ++rank) last_.push_back(rank);
    for (int group = 1; group <= 11; ++group)
      last_.push_back(static_cast<std::uint64_t>(std::llround(kSingleRanks * std::exp(step * group))));
    last_.back() = count;
    weights_.resize(last_.size());
    for (std::uint64_t rank = count; rank > 0; --rank)  // the smallest first, for an exact sum
      weights_[of(rank)] += std::pow(static_cast<double>(rank), -exponent);
    for (const double weight : weights_) all_ += weight;
  }
  std::size_t of(std::uint64_t rank) const {
    return static_cast<std::size_t>(std::lower_bound(last_.begin(), last_.end(), rank) - last_.begin());
  }
  double chi_square(const std::vector<int>& drawn, int draws) const {
    double sum = 0;
    for (std::size_t bin = 0; bin < weights_.size(); ++bin) {
      const double expected = draws * weights_[bin] / all_;
      sum += (drawn[bin] - expected) * (drawn[bin] - expected) / expected;
    }
    return sum;
  }
  std::size_t size() const { return last_.size(); }

 private:
  std::vector<std::uint64_t> last_;
  std::vector<double> weights_;
  double all_ = 0;
};

double chi_square(double drawn_from, const Bins& bins, std::uint64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const kv::Zipf zipf(count, drawn_from);
  std::vector<int> drawn(bins.size());
  for (int draw = 0; draw < kDraws; ++draw) ++drawn.at(bins.of(zipf(random)));
  return bins.chi_square(drawn, kDraws);
}

TEST(Zipf, DrawsRanksWithTheirProbabilities) {
  for (const double exponent : {0.5, 0.99}) {
    for (const std::uint64_t count : {std::uint64_t{1000}, std::uint64_t{1'000'000}}) {
      const Bins bins(count, exponent);
      for (std::uint64_t seed = 1; seed <= kSeeds; ++seed)
        EXPECT_LT(chi_square(exponent, bins, count, seed), kCritical)
            << "exponent " << exponent << ", " << count << " ranks, seed " << seed;
    }
  }
}

TEST(Zipf, IsDistinguishedFromAnExponentNearby) {
  const Bins bins(1'000'000, 0.99);
  EXPECT_GT(chi_square(0.98, bins, 1'000'000, 1), kCritical);
}

TEST(Workload, MixesReadsAndWritesInTheirShare) {
  const kv::Mix how{.keys = 1000, .partitions = 3, .gets = 0.95, .skew = 0, .seed = 7};
  const auto operations = kv::make_operations(how, 100'000);
  std::set<kv::Key> keys;
  std::size_t puts = 0;
  std::vector<int> partitions(how.partitions);
  for (const kv::Operation& operation : operations) {
    puts += operation.is_put ? 1 : 0;
    ++partitions.at(operation.partition);
    keys.insert(operation.key);
  }
  EXPECT_NEAR(static_cast<double>(puts), 5000, 5 * std::sqrt(100'000 * 0.95 * 0.05));
  EXPECT_EQ(keys.size(), how.keys);
  for (const int share : partitions) EXPECT_NEAR(share, 33'333, 3'333);
}

TEST(Workload, TellsAValueOfAnotherKeyOrADamagedOne) {
  const kv::Key key = kv::make_key(1);
  kv::Value value = kv::make_value(key, 5);
  EXPECT_TRUE(kv::is_value_of(key, value));
  EXPECT_FALSE(kv::is_value_of(kv::make_key(2), value));
  ++value[3];
  EXPECT_FALSE(kv::is_value_of(key, value));
}

}  // namespace
