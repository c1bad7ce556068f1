// SPDX-License-Identifier: Apache-2.0
// AES-256-GCM from Intel's Multi-Buffer library, which is loaded when it is first needed. A text of 92 bytes takes a
// quarter of libsodium's time, and a text of 16 KiB three eighths of OpenSSL's (docs/performance/encryption.md).
// Without this library, libsodium and OpenSSL do the work.
#pragma once

#include <array>
#include <cstddef>

namespace ripc::internal::security {

// A text that is sealed or opened.
struct AeadText {
  std::array<unsigned char, 12> nonce;
  const unsigned char* head;  // authenticated, and readable
  std::size_t head_size;
  const unsigned char* from;
  unsigned char* to;  // may be `from`
  std::size_t size;
  unsigned char* tag;  // 16 bytes
};

class MultiBuffer {
 public:
  // An expanded key.
  struct alignas(64) Key {
    std::array<std::byte, 1024> data;
  };
  // Any thread. Null: the library is not installed, was missing when libripc was built, or has another version.
  static const MultiBuffer* get() noexcept;

  // Any thread. `key`: 32 bytes.
  void expand(const unsigned char* key, Key& expanded) const noexcept;
  void seal(const Key& key, const AeadText& text) const noexcept;
  // False: it is forged.
  bool open(const Key& key, const AeadText& text) const noexcept;

 private:
  void* manager_ = nullptr;
};

}  // namespace ripc::internal::security
