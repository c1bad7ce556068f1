// SPDX-License-Identifier: Apache-2.0
// A server of the object store. It watches its clients: when a client dies, the servers of its transactions agree on
// how they end, and no lock remains.
//
// A dead client's transaction is committed if every participant has logged it; otherwise it is aborted. Each
// participant finds this out for itself, and all come to the same result, for two reasons. A server that knows that a
// client is dead refuses whatever still arrives from it, so what the server says about a transaction stays true. And a
// client commits only what all participants have logged. A server that is asked about such a transaction learns from
// the question that the client is dead.
//
// Servers that die are outside the scope of this example: FaSST has backups for them.
#pragma once

#include <absl/container/node_hash_map.h>

#include <atomic>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "program.hpp"
#include "store.hpp"

namespace kv {

class StoreServer {
 public:
  StoreServer(std::size_t index, std::size_t servers, std::uint64_t objects)
      : index_(index), servers_(servers), store_(index, servers, objects) {}

  ripc::Error open(ripc::Context& context) {
    context_ = &context;
    auto service = context.register_service({.name = server_name(index_)});
    if (!service) return service.error();
    service_ = *std::move(service);
    auto rpc = ripc::Rpc::create(service_, {.slots = 64});
    if (!rpc) return rpc.error();
    rpc_ = *std::move(rpc);
    for (std::size_t index = 0; index < servers_; ++index) ids_.push_back(*ripc::id_from_name(server_name(index)));
    ripc::Error error = rpc_.on(kOpen, [this](ripc::Request request) { open_client(std::move(request)); });
    for (const Method phase : {kExecute, kValidate, kLog, kCommit, kAbort})
      if (error.ok()) error = rpc_.on(phase, [this](ripc::Request request) { run_phase(request); });
    if (error.ok()) error = rpc_.on(kAudit, [this](ripc::Request request) { audit(request); });
    if (error.ok()) error = rpc_.on(kFate, [this](ripc::Request request) { tell_fate(request); });
    return error;
  }
  ripc::Error run(const std::atomic<bool>& stop) {
    while (!stop) {
      const auto events = rpc_.run();
      if (!events.ok() && events.code() != RIPC_INTERRUPTED && events.code() != RIPC_TIMEOUT) return events.error();
      if (has_news_) hear_news();
    }
    return {};
  }
  void interrupt() { (void)service_.interrupt(); }

 private:
  struct Client {
    enum class State { kNew, kOpen, kDead } state = State::kNew;
    ripc::Request opening;  // held until the client is watched
    ripc::Watch watch;
  };

  // ---- Life and death of clients ----

  void open_client(ripc::Request request) {
    // Forget clients that died before they could be watched: they no longer wait for an answer.
    absl::erase_if(clients_, [](const auto& each) {
      return each.second.state == Client::State::kNew && each.second.opening.time_left() == ripc::kNoWait;
    });
    const ripc::ServiceId id = request.source();
    Client& client = clients_[id];
    if (client.state != Client::State::kNew || !client.opening.empty())
      return answer(request, client.state == Client::State::kOpen ? kDone : kRefused);
    client.opening = std::move(request);
    auto watch = context_->watch(id, [this, id](ripc_status status, const ripc::ServiceInfo&) {
      const std::lock_guard lock(mutex_);
      news_.emplace_back(id, status == RIPC_OK);
      has_news_ = true;
      (void)service_.interrupt();
    });
    if (!watch) return (void)clients_.erase(id);  // which drops the request
    client.watch = *std::move(watch);
  }
  void hear_news() {
    std::vector<std::pair<ripc::ServiceId, bool>> news;
    {
      const std::lock_guard lock(mutex_);
      news.swap(news_);
      has_news_ = false;
    }
    for (const auto& [id, is_there] : news) {
      const auto at = clients_.find(id);
      if (at == clients_.end()) continue;
      if (!is_there) {
        bury(id);
      } else if (at->second.state == Client::State::kNew) {
        at->second.state = Client::State::kOpen;
        answer(at->second.opening, kDone);
      }
    }
  }
  // The server remembers the client as dead, because its calls may still be on their way.
  void bury(ripc::ServiceId id) {
    Client& client = clients_[id];
    if (client.state == Client::State::kDead) return;
    client.state = Client::State::kDead;
    client.opening = {};
    client.watch.end();
    ++dead_;
    for (const Name& name : store_.transactions_of(id)) ripc::Rpc::spawn(settle(name));
  }
  ripc::Task<> settle(Name name) {
    const Fate fate_here = store_.fate(name);
    if (fate_here == Fate::kCommitted) co_return;
    bool is_logged = fate_here == Fate::kLogged;
    for (std::size_t index = 0; is_logged && index < servers_; ++index) {
      if (index == index_ || (store_.participants(name) >> index & 1) == 0) continue;
      const Question question{name.client, name.number};
      const ripc::Item item = plain_item(question);
      while (true) {
        const auto said = co_await rpc_.call(ids_[index], kFate, std::span(&item, 1));
        if (said.status() == RIPC_CLOSED) co_return;  // this server is ending
        const auto fate = said.answered() ? plain<Fate>(said.item(0)) : std::nullopt;
        if (!fate) continue;
        is_logged = *fate != Fate::kNothing;
        break;
      }
    }
    if (is_logged) (void)store_.commit(name);
    if (!is_logged) store_.abort(name);
    ++(is_logged ? brought_home_ : given_up_);
  }
  void tell_fate(ripc::Request& request) {
    const auto question = plain<Question>(request.item(0));
    if (!question) return request.drop(RIPC_CORRUPT);
    bury(question->client);
    const Fate fate = store_.fate({question->client, question->number});
    const ripc::Item item = plain_item(fate);
    answer(request, std::span(&item, 1));
  }

  // ---- Transactions ----

  void run_phase(ripc::Request& request) {
    const auto header = plain<Header>(request.item(0));
    const auto client = clients_.find(request.source());
    if (!header) return request.drop(RIPC_CORRUPT);
    if (client == clients_.end() || client->second.state != Client::State::kOpen) return answer(request, kRefused);
    const Name name{request.source(), header->number};
    switch (request.method()) {
      case kExecute: {
        store_.forget_before(name.client, header->oldest);
        Few<Found> found;
        const auto wants = Few<Want>::from(request.item(1));
        const Code code = wants ? store_.execute(name, *wants, found) : kRefused;
        const ripc::Item item = found.item();
        return answer(request, std::span(&item, code == kDone ? 1 : 0), code);
      }
      case kValidate: {
        const auto seen = Few<Seen>::from(request.item(1));
        return answer(request, seen ? store_.validate(name, *seen) : kRefused);
      }
      case kLog: {
        const auto writes = Few<ObjectValue>::from(request.item(1));
        return answer(request, writes ? store_.log(name, header->participants, *writes) : kRefused);
      }
      case kCommit:
        return answer(request, store_.commit(name));
      default:
        store_.abort(name);
        return answer(request, kDone);
    }
  }
  void audit(ripc::Request& request) {
    Audit audit = store_.audit();
    audit.dead = dead_;
    audit.given_up = given_up_;
    audit.brought_home = brought_home_;
    const ripc::Item item = plain_item(audit);
    answer(request, std::span(&item, 1));
  }

  std::size_t index_;
  std::size_t servers_;
  Store store_;
  std::uint64_t dead_ = 0, given_up_ = 0, brought_home_ = 0;
  std::mutex mutex_;  // guards news_, which the responder thread fills
  std::vector<std::pair<ripc::ServiceId, bool>> news_;
  std::atomic<bool> has_news_ = false;
  ripc::Context* context_ = nullptr;
  std::vector<ripc::ServiceId> ids_;
  ripc::Service service_;
  absl::node_hash_map<ripc::ServiceId, Client> clients_;
  ripc::Rpc rpc_;
};

}  // namespace kv
