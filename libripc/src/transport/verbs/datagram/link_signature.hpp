// SPDX-License-Identifier: Apache-2.0
// The signatures of a link's datagrams, in a session with a secret: the sealed datagrams of UDP (docs/wire.md) that
// always stay readable. Encryption would not help, because the device does not hide the long items either.
//
// Greetings go to a different queue pair than packets, and can overtake them by far, so they have separate numbers and
// keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "remote/session/session.hpp"
#include "security/sealed_datagram.hpp"
#include "spi/transport.hpp"

namespace ripc::internal::verbs {

// The bytes that a signature adds to each datagram.
inline std::size_t signature_size(const remote::Session& session) noexcept {
  return session.secret ? security::kSealedOverhead : 0;
}

// The contents of a datagram, not yet verified; all of it, if it does not look signed.
inline spi::Bytes unverified(spi::Bytes datagram) noexcept {
  const bool looks_signed = datagram.size() >= security::kSealedOverhead &&
                            datagram.front() == static_cast<std::byte>(security::kSealedVersion);
  return looks_signed ? datagram.subspan(security::kSealedHead, datagram.size() - security::kSealedOverhead) : datagram;
}

// Checks one direction of a link. One thread at a time.
class DatagramVerifier {
 public:
  using Verdict = security::DatagramOpener::Verdict;
  DatagramVerifier(security::Protection protection, const security::Secret& root, remote::CountersPointer counters)
      : opener_(protection, root), counters_(std::move(counters)) {}
  // Counts datagrams that are not fresh. Trust the contents of fresh datagrams only.
  Verdict check(std::span<std::byte> datagram) noexcept;

 private:
  security::DatagramOpener opener_;
  const remote::CountersPointer counters_;
};

// Null: the link's datagrams must not be signed.
inline DatagramVerifier::Verdict check(DatagramVerifier* verifier, std::span<std::byte> datagram) noexcept {
  if (verifier != nullptr) return verifier->check(datagram);
  return unverified(datagram).size() == datagram.size() ? DatagramVerifier::Verdict::fresh
                                                        : DatagramVerifier::Verdict::forged;
}

// One end of a link. In a session without a secret, sealers and verifiers are null. Throws std::bad_alloc.
class LinkSignature {
 public:
  // `opened_here`: this is the end that sends packets and greetings, and gets answers: credit, and greetings back.
  LinkSignature(const remote::Session& session, bool opened_here, std::uint32_t link, std::uint64_t token) noexcept
      : session_(session), opened_here_(opened_here), link_(link), token_(token) {}
  enum class Purpose : std::uint8_t { packets, greetings, answers };
  std::shared_ptr<security::DatagramSealer> sealer(Purpose purpose) const;
  std::shared_ptr<DatagramVerifier> verifier(Purpose purpose, const remote::CountersPointer& counters) const;

 private:
  security::Protection protection() const noexcept;
  security::Secret root(Purpose purpose) const noexcept;

  const remote::Session& session_;
  const bool opened_here_;
  const std::uint32_t link_;
  const std::uint64_t token_;
};

}  // namespace ripc::internal::verbs
