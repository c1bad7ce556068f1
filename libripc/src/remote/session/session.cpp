// SPDX-License-Identifier: Apache-2.0
#include "remote/session/session.hpp"

#include "remote/link/link_channel.hpp"

namespace ripc::internal::remote {

Endpoint Session::local() const {
  const std::lock_guard lock(mutex_);
  return local_;
}

Endpoint Session::remote() const {
  const std::lock_guard lock(mutex_);
  return remote_;
}

std::string Session::sockets_text() const {
  if (!secret) return "sockets";
  if (!secret->protection.hides) return "sockets, authentic but not encrypted";
  return "sockets with " + std::string(security::name_of(secret->protection.suite));
}

void Session::set_ends(const Endpoint& local, const Endpoint& remote) {
  const std::lock_guard lock(mutex_);
  if (local_) moves_.fetch_add(1, std::memory_order_relaxed);
  local_ = local;
  remote_ = remote;
}

std::vector<Endpoint> Session::remotes() const {
  std::vector<Endpoint> all{remote()};
  for (const Endpoint& endpoint : endpoints) {
    if (!endpoint.same_ip(all.front())) all.push_back(endpoint);
  }
  return all;
}

std::shared_ptr<LinkChannel> Session::channel(std::uint32_t link) const {
  const std::lock_guard lock(mutex_);
  const auto found = channels_.find(link);
  return found == channels_.end() ? nullptr : found->second.lock();
}

std::vector<std::shared_ptr<LinkChannel>> Session::channels() const {
  std::vector<std::shared_ptr<LinkChannel>> living;
  const std::lock_guard lock(mutex_);
  living.reserve(channels_.size());
  for (const auto& [link, weak] : channels_) {
    if (auto channel = weak.lock()) living.push_back(std::move(channel));
  }
  return living;
}

std::unordered_map<std::uint32_t, std::weak_ptr<LinkChannel>> Session::take_channels() noexcept {
  std::unordered_map<std::uint32_t, std::weak_ptr<LinkChannel>> taken;
  const std::lock_guard lock(mutex_);
  taken.swap(channels_);
  return taken;
}

bool Session::expect_channel(std::uint32_t link, std::size_t most) {
  const std::lock_guard lock(mutex_);
  if (channels_.size() >= most) return false;
  channels_[link];
  return true;
}

bool Session::add_channel(std::uint32_t link, const std::shared_ptr<LinkChannel>& channel) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = channels_.find(link);
  if (found == channels_.end()) return false;
  found->second = channel;
  return true;
}

bool Session::remove_channel(std::uint32_t link) noexcept {
  const std::lock_guard lock(mutex_);
  return channels_.erase(link) != 0;
}

}  // namespace ripc::internal::remote
