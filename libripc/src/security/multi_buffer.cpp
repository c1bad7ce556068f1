// SPDX-License-Identifier: Apache-2.0
#include "security/multi_buffer.hpp"

#if __has_include(<intel-ipsec-mb.h>)

#include <dlfcn.h>
#include <intel-ipsec-mb.h>
#include <sodium.h>

namespace ripc::internal::security {

namespace {

static_assert(sizeof(gcm_key_data) <= sizeof(MultiBuffer::Key));

IMB_MGR* load() noexcept {
  void* const library = ::dlopen("libIPSec_MB.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return nullptr;
  const auto version = reinterpret_cast<decltype(&imb_get_version)>(::dlsym(library, "imb_get_version"));
  const auto make = reinterpret_cast<decltype(&alloc_mb_mgr)>(::dlsym(library, "alloc_mb_mgr"));
  const auto start = reinterpret_cast<decltype(&init_mb_mgr_auto)>(::dlsym(library, "init_mb_mgr_auto"));
  // The functions are found by their places in a structure, and other versions have a different layout.
  if (version == nullptr || make == nullptr || start == nullptr || version() != IMB_VERSION_NUM) return nullptr;
  IMB_MGR* const manager = make(0);
  if (manager == nullptr) return nullptr;
  IMB_ARCH chosen = IMB_ARCH_NONE;
  start(manager, &chosen);
  // The library's code for processors without AES instructions takes a time that reveals the key.
  const bool is_good = manager->imb_errno == 0 && chosen > IMB_ARCH_NOAESNI;
  return is_good ? manager : nullptr;
}

const IMB_MGR& as_manager(const void* manager) noexcept { return *static_cast<const IMB_MGR*>(manager); }
const gcm_key_data* as_key(const MultiBuffer::Key& key) noexcept { return reinterpret_cast<const gcm_key_data*>(&key); }

}  // namespace

const MultiBuffer* MultiBuffer::get() noexcept {
  // Never destroyed, because other threads may still send.
  static const MultiBuffer loaded = [] {
    MultiBuffer made;
    made.manager_ = load();
    return made;
  }();
  return loaded.manager_ != nullptr ? &loaded : nullptr;
}

void MultiBuffer::expand(const unsigned char* key, Key& expanded) const noexcept {
  as_manager(manager_).gcm256_pre(key, reinterpret_cast<gcm_key_data*>(&expanded));
}

void MultiBuffer::seal(const Key& key, const AeadText& text) const noexcept {
  gcm_context_data context;
  as_manager(manager_).gcm256_enc(as_key(key), &context, text.to, text.from, text.size, text.nonce.data(), text.head,
                                  text.head_size, text.tag, crypto_aead_aes256gcm_ABYTES);
}

bool MultiBuffer::open(const Key& key, const AeadText& text) const noexcept {
  gcm_context_data context;
  std::array<unsigned char, crypto_verify_16_BYTES> tag;
  as_manager(manager_).gcm256_dec(as_key(key), &context, text.to, text.from, text.size, text.nonce.data(), text.head,
                                  text.head_size, tag.data(), tag.size());
  return crypto_verify_16(tag.data(), text.tag) == 0;
}

}  // namespace ripc::internal::security

#else

namespace ripc::internal::security {

const MultiBuffer* MultiBuffer::get() noexcept { return nullptr; }
void MultiBuffer::expand(const unsigned char*, Key&) const noexcept {}
void MultiBuffer::seal(const Key&, const AeadText&) const noexcept {}
bool MultiBuffer::open(const Key&, const AeadText&) const noexcept { return false; }

}  // namespace ripc::internal::security

#endif
