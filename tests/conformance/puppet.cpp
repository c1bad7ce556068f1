// SPDX-License-Identifier: Apache-2.0
#include "puppet.hpp"

#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <sstream>
#include <utility>

namespace conformance {
namespace {

std::string name_of(ripc_status status) { return ripc_status_name(status); }

class Stage {
 public:
  explicit Stage(PeerSide& parent) {
    const ripc_context_options options = parent.context_options();
    ripc_context* context = nullptr;
    created_ = ripc_context_create(&options, &context);
    context_.reset(context);
  }

  std::string perform(const std::string& command) {
    std::istringstream words(command);
    std::string verb;
    words >> verb;
    if (created_ != RIPC_OK) return name_of(created_);
    if (verb == "register") return enrol(words);
    if (verb == "unregister") return service_.reset(), "ok";
    if (verb == "join") return name_of(ripc_group_join(service_.get(), number(words)));
    if (verb == "leave") return name_of(ripc_group_leave(service_.get(), number(words)));
    if (verb == "destroy") return message_.reset(), ticket_.reset(), service_.reset(), context_.reset(), "ok";
    if (verb == "send") return send_text(words);
    if (verb == "send_unordered") return send_text(words, RIPC_SEND_UNORDERED);
    if (verb == "send_long") return send_long(words);
    if (verb == "ticket") return name_of(ripc_ticket_poll(ticket_.get()));
    if (verb == "wait") return wait();
    if (verb == "request") return request(words);
    if (verb == "post") return post(words);
    if (verb == "receive") return receive(words);
    if (verb == "look") return look();
    if (verb == "scribble") return scribble();
    if (verb == "release") return release();
    if (verb == "reply") return reply(words);
    if (verb == "reply_return") return reply_return(words);
    if (verb == "notify") return notify(words);
    if (verb == "notification") return notification();
    if (verb == "notified") return std::to_string(notified_.load());
    if (verb == "resolve") return resolve(words);
    if (verb == "list") return list();
    if (verb == "refused") return refused();
    if (verb == "error") return ripc_last_error();
    if (verb == "path") return path(words);
    if (verb == "stream") return stream(words);
    if (verb == "fill") return fill(words);
    if (verb == "wait_room") return wait_room(words);
    return "unknown command";
  }

 private:
  static std::uint64_t number(std::istringstream& words) {
    std::string word;
    words >> word;
    return std::strtoull(word.c_str(), nullptr, 0);
  }
  static std::string rest(std::istringstream& words) {
    std::string text;
    words >> std::ws;
    std::getline(words, text);
    return text;
  }

  std::string enrol(std::istringstream& words) {
    ripc_service_options options = initialized(ripc_service_options_init);
    options.id = number(words);
    options.takeover = rest(words) == "takeover" ? 1 : 0;
    ripc_service* service = nullptr;
    const ripc_status status = ripc_service_register(context_.get(), &options, &service);
    service_.reset(service);
    return name_of(status) + " " + std::to_string(ripc_service_get_incarnation(service));
  }

  std::string send_text(std::istringstream& words, std::uint32_t flags = 0) {
    const ripc_service_id to = number(words);
    ripc_send_options options = send_options();
    options.tag = static_cast<std::uint32_t>(number(words));
    options.flags = flags;
    const std::string text = rest(words);
    const ripc_item one = item(text);
    return name_of(ripc_send(service_.get(), to, &one, 1, &options, nullptr));
  }

  std::string send_long(std::istringstream& words) {
    const ripc_service_id to = number(words);
    const std::size_t size = number(words);
    const unsigned seed = static_cast<unsigned>(number(words));
    std::string memory;
    words >> memory;
    ripc_send_options options = send_options();
    if (const std::uint64_t limit = number(words); limit != 0) options.timeout = limit * kMillisecond;
    void* data = nullptr;
    if (memory == "pool") {
      if (const ripc_status status = ripc_buffer_lease(context_.get(), size, &data)) return name_of(status);
    } else {
      sent_.emplace_back(std::make_unique<Bytes>(size));
      data = sent_.back()->data();
      lent_ = data;
    }
    fill_pattern(data, size, seed);
    const ripc_item one = item_at(data, size, RIPC_ITEM_LONG);
    ripc_ticket* ticket = nullptr;
    const ripc_status status = ripc_send(service_.get(), to, &one, 1, &options, &ticket);
    ticket_.reset(ticket);
    return name_of(status);
  }

  // A test may send much with one peer, so it does not keep everything.
  void free_memory(const void* data) {
    std::erase_if(sent_, [data](const auto& bytes) { return bytes->data() == data; });
  }
  std::string wait() {
    const ripc_status status = ripc_ticket_wait(ticket_.get(), kLimit / 2);
    if (status != RIPC_TIMEOUT) free_memory(std::exchange(lent_, nullptr));
    return name_of(status);
  }
  std::string release() {
    ripc_item_view view{};
    const bool is_window = ripc_message_get_item(message_.get(), 0, &view) == RIPC_OK && view.kind == RIPC_VIEW_WINDOW;
    message_.reset();
    if (is_window) free_memory(view.data);
    return "ok";
  }

  std::string request(std::istringstream& words) {
    const ripc_service_id to = number(words);
    sent_.emplace_back(std::make_unique<Bytes>(number(words)));
    const ripc_return_buffer buffer{sent_.back()->data(), sent_.back()->size()};
    ripc_send_options options = send_options();
    options.return_count = 1;
    options.returns = &buffer;
    const ripc_status status = ripc_send(service_.get(), to, nullptr, 0, &options, nullptr);
    return name_of(status) + " " + std::to_string(reinterpret_cast<std::uintptr_t>(buffer.data));
  }

  std::string post(std::istringstream& words) {
    sent_.emplace_back(std::make_unique<Bytes>(number(words)));
    return name_of(ripc_window_post(service_.get(), sent_.back()->data(), sent_.back()->size(), number(words)));
  }

  std::string receive(std::istringstream& words) {
    const std::uint32_t flags = rest(words) == "lend" ? RIPC_RECEIVE_LEND : 0;
    ripc_message* message = nullptr;
    const ripc_status status = ripc_receive(service_.get(), flags, kLimit / 2, &message);
    message_.reset(message);
    return status == RIPC_OK ? "RIPC_OK" + look() : name_of(status);
  }

  std::string look() const {
    std::string answer;
    for (std::size_t index = 0; index < ripc_message_get_item_count(message_.get()); ++index) {
      ripc_item_view view;
      if (ripc_message_get_item(message_.get(), index, &view) == RIPC_OK) answer += " " + describe(view);
    }
    return answer;
  }

  std::string scribble() {
    ripc_item_view view;
    if (ripc_message_get_item(message_.get(), 0, &view) != RIPC_OK || view.size == 0) return "nothing to write to";
    ::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would write a report about what is meant to happen
    *const_cast<volatile unsigned char*>(static_cast<const unsigned char*>(view.data)) = 1;
    return "ok";
  }

  std::string reply(std::istringstream& words) {
    const std::string text = rest(words);
    const ripc_item one = item(text);
    return name_of(ripc_reply(service_.get(), message_.get(), &one, 1, nullptr, nullptr));
  }

  std::string reply_return(std::istringstream& words) {
    const std::size_t size = number(words);
    sent_.emplace_back(std::make_unique<Bytes>(pattern(size, static_cast<unsigned>(number(words)))));
    const ripc_item one = item(*sent_.back(), RIPC_ITEM_RETURN);
    ripc_ticket* ticket = nullptr;
    const ripc_status status = ripc_reply(service_.get(), message_.get(), &one, 1, nullptr, &ticket);
    ticket_.reset(ticket);
    return name_of(status);
  }

  std::string notify(std::istringstream& words) {
    ripc_notification notification{};
    notification.service = number(words);
    notification.handle = number(words);
    const std::string text = rest(words);
    const ripc_item one = item(text);
    return name_of(ripc_notify(service_.get(), &notification, &one, 1));
  }

  std::string notification() {
    ripc_notification notification{};
    const auto count = [](void* user, ripc_service_id, const ripc_item_view*, std::size_t) {
      static_cast<std::atomic<int>*>(user)->fetch_add(1);
    };
    const ripc_status status = ripc_notification_register(service_.get(), count, &notified_, &notification);
    return name_of(status) + " " + std::to_string(notification.service) + " " + std::to_string(notification.handle);
  }

  std::string path(std::istringstream& words) {
    ripc_service_info info = initialized(ripc_service_info_init);
    const ripc_status status = ripc_find_path(context_.get(), number(words), &info);
    return name_of(status) + " " + info.reason;
  }

  std::string resolve(std::istringstream& words) {
    ripc_service_info info = initialized(ripc_service_info_init);
    return name_of(ripc_resolve(context_.get(), number(words), &info));
  }

  std::string list() const {
    std::string ids;
    const auto add = [](void* text, const ripc_service_info* info) {
      *static_cast<std::string*>(text) += " " + std::to_string(info->id);
    };
    const ripc_status status = ripc_list_services(context_.get(), add, &ids);
    return status == RIPC_OK ? ids : name_of(status);
  }

  std::string refused() const {
    ripc_security_statistics statistics = initialized(ripc_security_statistics_init);
    const ripc_status status = ripc_security_get_statistics(context_.get(), &statistics);
    if (status != RIPC_OK) return name_of(status);
    return std::to_string(statistics.packets_refused);
  }

  std::string stream(std::istringstream& words) {
    const ripc_service_id to = number(words);
    const std::uint64_t count = number(words);
    ripc_send_options options = send_options();
    for (std::uint64_t index = 0; index < count;) {
      options.tag = static_cast<std::uint32_t>(index);
      ripc_status status = ripc_send(service_.get(), to, nullptr, 0, &options, nullptr);
      if (status == RIPC_OK) {
        ++index;
        continue;
      }
      if (status == RIPC_AGAIN) status = ripc_wait_room(service_.get(), to, kLimit / 2);
      if (status != RIPC_OK) return name_of(status);
    }
    return "RIPC_OK";
  }

  std::string fill(std::istringstream& words) {
    const ripc_service_id to = number(words);
    ripc_status status = RIPC_OK;
    while (status == RIPC_OK) status = ripc_send(service_.get(), to, nullptr, 0, nullptr, nullptr);
    return name_of(status);
  }

  std::string wait_room(std::istringstream& words) {
    const ripc_service_id to = number(words);
    return name_of(ripc_wait_room(service_.get(), to, number(words) * kMillisecond));
  }

  ripc_status created_ = RIPC_OK;
  std::atomic<int> notified_{0};
  std::vector<std::unique_ptr<Bytes>> sent_;  // memory that messages and windows use
  const void* lent_ = nullptr;                // of the last one that lends it
  Context context_;
  Service service_;
  Ticket ticket_;
  Message message_;
};

PEER_ROLE(puppet) {
  Stage stage(parent);
  for (std::string command; parent.next(command);) parent.reply(stage.perform(command));
  return 0;
}

}  // namespace

std::string describe(const ripc_item_view& view) {
  std::ostringstream text;
  text << view.kind << "/" << ripc_status_name(static_cast<ripc_status>(view.status)) << "/" << view.size << "/"
       << (view.data == nullptr ? 0 : checksum(view.data, view.size));
  return text.str();
}

std::string describe(ripc_view_kind kind, std::span<const unsigned char> bytes) {
  ripc_item_view view{};
  view.data = bytes.data();
  view.size = bytes.size();
  view.kind = kind;
  view.status = RIPC_OK;
  return describe(view);
}

std::string Puppet::status_of(const std::string& command) {
  const std::string answer = call(command);
  return answer.substr(0, answer.find(' '));
}

std::string Puppet::register_id(ripc_service_id id, bool takeover) {
  return status_of("register " + std::to_string(id) + (takeover ? " takeover" : ""));
}

std::string Puppet::send_text(ripc_service_id to, std::string_view text, std::uint32_t tag) {
  return call("send " + std::to_string(to) + " " + std::to_string(tag) + " " + std::string(text));
}

}  // namespace conformance
