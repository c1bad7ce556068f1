// SPDX-License-Identifier: Apache-2.0
// HERD's workload, from A. Kalia, M. Kaminsky, D. Andersen: Using RDMA Efficiently for Key-Value Services, SIGCOMM
// 2014. Keys have 16 bytes, values 32. Reads and writes are mixed; keys are uniform or follow a Zipf distribution with
// exponent 0.99. Every stored value can be checked, because it follows from its key and its version.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "zipf.hpp"

namespace kv {

using Key = std::array<char, 16>;  // printable, because memcached takes no others
using Value = std::array<std::uint64_t, 4>;

// The finalizer of splitmix64: it is one to one, and it sends neighbours far apart.
inline std::uint64_t mix(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

inline Key make_key(std::uint64_t number) {
  Key key;
  const std::uint64_t hash = mix(number);
  for (std::size_t digit = 0; digit < key.size(); ++digit) key[digit] = "0123456789abcdef"[(hash >> (4 * digit)) & 15];
  return key;
}

// The server thread that has the key.
inline std::uint32_t partition_of(std::uint64_t number, std::uint32_t partitions) {
  return static_cast<std::uint32_t>(mix(number) % partitions);
}

inline Value make_value(const Key& key, std::uint64_t version) {
  const auto halves = std::bit_cast<std::array<std::uint64_t, 2>>(key);
  return {version, mix(halves[0] ^ version), mix(halves[1] ^ version), mix(halves[0] + halves[1] + version)};
}

inline bool is_value_of(const Key& key, const Value& value) { return value == make_value(key, value[0]); }

struct Operation {
  Key key;
  std::uint32_t partition;
  bool is_put;
};

struct Mix {
  std::uint64_t keys = 1'000'000;
  std::uint32_t partitions = 1;
  double gets = 0.95;  // the share of gets
  double skew = 0.99;  // Zipf's exponent; 0: uniform
  std::uint64_t seed = 1;
};

// The operations are made before the measurement, which goes through them again and again.
inline std::vector<Operation> make_operations(const Mix& how, std::size_t count) {
  std::mt19937_64 random(how.seed);
  const Zipf zipf(how.keys, how.skew);
  std::vector<Operation> operations;
  operations.reserve(count);
  while (operations.size() < count) {
    const std::uint64_t number = how.skew > 0 ? zipf(random) - 1 : random() % how.keys;
    operations.push_back({make_key(number), partition_of(number, how.partitions), unit(random()) >= how.gets});
  }
  return operations;
}

// The operations that put every key once.
inline std::vector<Operation> make_filling(const Mix& how) {
  std::vector<Operation> operations;
  operations.reserve(how.keys);
  for (std::uint64_t number = 0; number < how.keys; ++number)
    operations.push_back({make_key(number), partition_of(number, how.partitions), true});
  return operations;
}

}  // namespace kv
