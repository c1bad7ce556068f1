// SPDX-License-Identifier: Apache-2.0
// Helpers for all parts of make_corpus.cpp: they write files of bytes, and make a packet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>
#include <vector>

#include "wire/packet.hpp"

namespace corpus {

using ripc::internal::wire::Encoder;
using ripc::internal::wire::PacketKind;
using Bytes = std::vector<std::byte>;

inline bool failed = false;

inline void write(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  stream.close();
  if (!stream) {
    std::fprintf(stderr, "%s: cannot be written\n", file.c_str());
    failed = true;
  }
}

inline std::span<const std::byte> text(std::string_view characters) {
  return std::as_bytes(std::span<const char>(characters.data(), characters.size()));
}

inline Bytes flatten(Encoder& encoder) {
  Bytes bytes;
  for (const std::span<const std::byte> range : encoder.finish()) bytes.insert(bytes.end(), range.begin(), range.end());
  return bytes;
}

constexpr std::uint64_t kSource = 0x8000'0000'0000'0101;

inline Bytes short_message() {
  Encoder encoder(PacketKind::message, 7, kSource);
  encoder.add_payload(text("ping"));
  encoder.add_payload({});
  return flatten(encoder);
}

}  // namespace corpus
