// SPDX-License-Identifier: Apache-2.0
#include "rpc/service_messenger.hpp"

#include <utility>

#include "core/watch.hpp"

namespace ripc::internal::rpc {

Messenger::Path ServiceMessenger::path(ripc_service_id to) noexcept {
  const ThreadEpoch::Section section(ThreadEpoch::current());
  const std::shared_ptr<spi::Channel>* const channel = service_.context().paths().routes().find(to);
  if (channel == nullptr || !(*channel)->alive()) return {};
  return {.is_known = true, .loses = (*channel)->loses(), .incarnation = (*channel)->incarnation(), .way = *channel};
}

Status ServiceMessenger::check_given(std::span<const ripc_item> items) {
  for (const ripc_item& item : items) {
    if (item.kind != RIPC_ITEM_GIVEN) continue;
    if (const auto held = core::Sender::hold_given(service_.context().pool(), item); !held.ok()) return held.status();
  }
  return {};
}

void ServiceMessenger::release_given(std::span<const ripc_item> items) noexcept {
  for (const ripc_item& item : items) {
    if (item.kind != RIPC_ITEM_GIVEN) continue;
    memory::Pool& pool = service_.context().pool();
    if (const Result<memory::Hold> hold = pool.hold(item.data, item.size); hold.ok()) pool.release(*hold);
  }
}

Messenger::Search ServiceMessenger::find_path(ripc_service_id to, std::function<void(ripc_status)> report) {
  core::WatchTable& watches = service_.context().watches();
  auto watch =
      watches.seek(to, [report = std::move(report)](ripc_status status, const core::Resolution&) { report(status); });
  if (!watch.ok()) throw std::bad_alloc();
  void* const any = watch->get();
  return {any, [&watches, watch = std::move(*watch)](void*) { watches.remove(watch); }};
}

}  // namespace ripc::internal::rpc
