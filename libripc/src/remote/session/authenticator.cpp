// SPDX-License-Identifier: Apache-2.0
#include "remote/session/authenticator.hpp"

#include <array>
#include <cstring>
#include <vector>

#include "base/random.hpp"

namespace ripc::internal::remote {

namespace {

using wire::session_control::Confirm;
using wire::session_control::Hello;
using wire::session_control::HelloReply;

constexpr std::string_view kReplyPurpose = "ripc socket reply 1";
constexpr std::string_view kConfirmPurpose = "ripc socket confirm 1";

// Both sides sign all that was said, in the form in which it travelled. The memory is kept: whoever has answered must
// be able to check the proof, or the other side would take for a connection what this side has given up.
struct Transcript {
  std::vector<std::byte>& hello;
  std::vector<std::byte>& reply;

  Transcript(const Hello& question, HelloReply answer) : hello(kept()[0]), reply(kept()[1]) {
    answer.mac = {};
    (void)wire::session_control::encode(question, hello);
    (void)wire::session_control::encode(answer, reply);
  }

 private:
  static std::array<std::vector<std::byte>, 2>& kept() noexcept {
    thread_local std::array<std::vector<std::byte>, 2> frames;
    return frames;
  }
};

}  // namespace

void Authenticator::sign(const Hello& hello, HelloReply& reply) const {
  reply.mac = {};
  if (!keys_) return;
  const Transcript transcript(hello, reply);
  reply.mac = keys_->mac(kReplyPurpose, {transcript.hello, transcript.reply});
}

bool Authenticator::verify(const Hello& hello, const HelloReply& reply) const {
  // Whoever has a key does not admit those without: better to say so than to be thrown out.
  if (!keys_) return reply.mac == wire::session_control::Mac{};
  const Transcript transcript(hello, reply);
  return keys_->verify(kReplyPurpose, {transcript.hello, transcript.reply}, reply.mac);
}

std::size_t Authenticator::key_of(const Hello& hello, const HelloReply& reply) const {
  if (!keys_) return 0;
  const Transcript transcript(hello, reply);
  return keys_->key_of(kReplyPurpose, {transcript.hello, transcript.reply}, reply.mac);
}

Status Authenticator::authorize(int socket) {
  Status status = authorizer_.authorize_connection(socket);
  if (status == RIPC_REFUSED) count_refused();
  return status;
}

Confirm Authenticator::confirm(const Hello& hello, const HelloReply& reply) const {
  Confirm confirm;
  if (!keys_) return confirm;
  const std::size_t key = key_of(hello, reply);
  const Transcript transcript(hello, reply);
  confirm.mac = keys_->mac(kConfirmPurpose, {transcript.hello, transcript.reply}, key);
  return confirm;
}

bool Authenticator::verify(const Hello& hello, const HelloReply& reply, const Confirm& confirm) {
  if (!keys_) return true;
  const Transcript transcript(hello, reply);
  if (keys_->verify(kConfirmPurpose, {transcript.hello, transcript.reply}, confirm.mac)) return true;
  count_refused();
  return false;
}

wire::session_control::Nonce random_nonce() noexcept {
  wire::session_control::Nonce nonce;
  for (std::size_t offset = 0; offset < nonce.size(); offset += sizeof(std::uint64_t)) {
    const std::uint64_t random = random_u64();
    std::memcpy(nonce.data() + offset, &random, sizeof random);
  }
  return nonce;
}

}  // namespace ripc::internal::remote
