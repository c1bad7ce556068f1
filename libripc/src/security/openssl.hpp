// SPDX-License-Identifier: Apache-2.0
// The few functions of OpenSSL's libcrypto that make large records faster, loaded when they are first needed. Without
// OpenSSL, libsodium does the same, at less than half the rate (docs/dependencies.md).
#pragma once

namespace ripc::internal::security {

struct OpenSsl {
  struct Context;                       // EVP_CIPHER_CTX
  struct Type;                          // EVP_CIPHER
  static constexpr int kGetTag = 0x10;  // EVP_CTRL_AEAD_GET_TAG
  static constexpr int kSetTag = 0x11;  // EVP_CTRL_AEAD_SET_TAG

  Type* (*fetch)(void*, const char* algorithm, const char* properties) = nullptr;
  Context* (*make)() = nullptr;
  void (*free)(Context*) = nullptr;
  int (*init)(Context*, const Type*, const unsigned char* key, const unsigned char* nonce, int encrypts,
              const void*) = nullptr;
  int (*update)(Context*, unsigned char* out, int* size, const unsigned char* in, int in_size) = nullptr;
  int (*final)(Context*, unsigned char* out, int* size) = nullptr;
  int (*control)(Context*, int what, int size, void*) = nullptr;

  Type* aes256_gcm = nullptr;
  Type* chacha20_poly1305 = nullptr;

  // Any thread. Null: version 3 is not installed.
  static const OpenSsl* get() noexcept;
};

}  // namespace ripc::internal::security
