// SPDX-License-Identifier: Apache-2.0
// Fuzzes both ends of the handshake's proof with frames that are understood: whoever does not have the cluster key
// proves nothing, and no answer convinces whoever connects.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "remote/session/proof.hpp"
#include "require.hpp"

namespace {

using fuzz::require;
using namespace ripc::internal::remote;  // NOLINT(google-build-using-namespace): a test of it
namespace session = ripc::internal::wire::session_control;

const ProofOptions& options() {
  static const ProofOptions made = [] {
    ProofOptions with_key;
    std::string text(63, '1');
    text.append("2\n");
    with_key.credentials.keys = *ripc::internal::ClusterKeys::parse(text, "fuzz");
    return with_key;
  }();
  return made;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto frame = session::decode(std::as_bytes(std::span(data, size)));
  if (!frame.ok()) return 0;
  Proof proof(options(), {}, false);
  if (const auto* const hello = std::get_if<session::Hello>(&*frame)) {
    require(!proof.examine(*hello));
  } else if (const auto* const reply = std::get_if<session::HelloReply>(&*frame)) {
    session::Hello asked{.context = 1, .session = 2, .role = 1, .port = 3, .offers = {}};
    proof.offer(asked);
    require(!proof.judge(*reply).ok());
  } else if (const auto* const confirm = std::get_if<session::Confirm>(&*frame)) {
    session::Hello asked{.context = 1, .session = 2, .role = 1, .port = 3, .offers = {}};
    Proof other(options(), {}, false);
    other.offer(asked);
    require(proof.examine(asked));
    session::HelloReply answer{.context = 4, .message = {}};
    require(proof.answer(answer));
    require(!proof.judge(*confirm).ok());
  }
  require(!proof.take().session);
  return 0;
}
