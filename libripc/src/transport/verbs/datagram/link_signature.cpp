// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/datagram/link_signature.hpp"

namespace ripc::internal::verbs {

DatagramVerifier::Verdict DatagramVerifier::check(std::span<std::byte> datagram) noexcept {
  std::span<std::byte> text;
  const Verdict verdict = opener_.open(datagram, text);
  if (verdict == Verdict::forged) security::Counters::add(counters_->packets_forged);
  if (verdict == Verdict::replayed) security::Counters::add(counters_->packets_replayed);
  return verdict;
}

security::Protection LinkSignature::protection() const noexcept {
  return {.suite = session_.secret->protection.suite, .hides = false};
}

security::Secret LinkSignature::root(Purpose purpose) const noexcept {
  const bool sends = opened_here_ == (purpose != Purpose::answers);
  const security::Secret link = session_.secret->of_link(session_.incoming, opened_here_, sends, link_, token_);
  return purpose == Purpose::greetings ? link.derive("ripc greetings") : link;
}

std::shared_ptr<security::DatagramSealer> LinkSignature::sealer(Purpose purpose) const {
  if (!session_.secret) return nullptr;
  return std::make_shared<security::DatagramSealer>(protection(), root(purpose));
}

std::shared_ptr<DatagramVerifier> LinkSignature::verifier(Purpose purpose,
                                                          const remote::CountersPointer& counters) const {
  if (!session_.secret) return nullptr;
  return std::make_shared<DatagramVerifier>(protection(), root(purpose), counters);
}

}  // namespace ripc::internal::verbs
