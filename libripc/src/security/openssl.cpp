// SPDX-License-Identifier: Apache-2.0
#include "security/openssl.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <type_traits>

namespace ripc::internal::security {

namespace {

// OpenSSL must not be shut down at the end of the process, when other threads may still send.
constexpr std::uint64_t kNoAtExit = 0x80000;

bool load(OpenSsl& out) noexcept {
  void* const library = ::dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return false;
  const auto find = [library](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    return function != nullptr;
  };
  int (*start)(std::uint64_t, const void*) = nullptr;
  void* (*new_library)() = nullptr;
  if (!find(start, "OPENSSL_init_crypto") || !find(new_library, "OSSL_LIB_CTX_new")) return false;
  if (start(kNoAtExit, nullptr) != 1) return false;
  if (!find(out.fetch, "EVP_CIPHER_fetch") || !find(out.make, "EVP_CIPHER_CTX_new") ||
      !find(out.free, "EVP_CIPHER_CTX_free") || !find(out.init, "EVP_CipherInit_ex2") ||
      !find(out.update, "EVP_CipherUpdate") || !find(out.final, "EVP_CipherFinal_ex") ||
      !find(out.control, "EVP_CIPHER_CTX_ctrl"))
    return false;
  // A separate library context leaves alone the configuration and providers of the program, which may use OpenSSL too.
  void* const own = new_library();
  if (own == nullptr) return false;
  out.aes256_gcm = out.fetch(own, "AES-256-GCM", nullptr);
  out.chacha20_poly1305 = out.fetch(own, "ChaCha20-Poly1305", nullptr);
  return out.aes256_gcm != nullptr && out.chacha20_poly1305 != nullptr;
}

}  // namespace

const OpenSsl* OpenSsl::get() noexcept {
  // Never unloaded: someone else may use it.
  static const struct Loaded {
    OpenSsl functions;
    bool there = load(functions);
  } loaded;
  return loaded.there ? &loaded.functions : nullptr;
}

}  // namespace ripc::internal::security
