// SPDX-License-Identifier: Apache-2.0
// Hosts that send datagrams or ask for connections without being peers.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "nodes.hpp"
#include "transport/verbs/bulk/queue_pair_connection.hpp"
#include "transport/verbs/device/connection_manager.hpp"

namespace ripc::internal::verbs {

// Sends arbitrary bytes to a queue pair of this machine.
class StrangeSender {
 public:
  static constexpr std::uint32_t kMost = 256;  // bytes of one datagram
  explicit StrangeSender(const DevicePort& port)
      : queue_(DatagramQueue::create(port, port.device, {.sends = kSends, .receives = 1, .inlined = kMost}).value()) {
    ibv_ah_attr address{};
    address.port_num = port.number;
    address.is_global = 1;
    address.grh.sgid_index = port.gid_index;
    address.grh.dgid = port.gid;
    address.grh.hop_limit = 1;
    handle_ = create_handle(port.device, address);
    EXPECT_NE(handle_, nullptr);
  }

  // Returns when the datagram has left.
  bool send(const DatagramAddress& to, std::span<const std::byte> bytes) {
    ibv_sge range{.addr = reinterpret_cast<std::uint64_t>(bytes.data()),
                  .length = static_cast<std::uint32_t>(bytes.size()),
                  .lkey = 0};
    ibv_send_wr request{};
    request.sg_list = &range;
    request.num_sge = bytes.empty() ? 0 : 1;
    request.opcode = IBV_WR_SEND;
    // Solicited, because a sleeping thread must wake.
    request.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE | IBV_SEND_SOLICITED;
    request.wr.ud = {.ah = handle_.get(), .remote_qpn = to.queue_pair, .remote_qkey = to.queue_key};
    ibv_send_wr* bad = nullptr;
    if (bytes.size() > queue_->inlined() || ibv_post_send(queue_->pair(), &request, &bad) != 0) return false;
    ibv_wc completion{};
    const Deadline deadline = Deadline::after(kLimit);
    int count = 0;
    while (count == 0 && !deadline.expired()) count = ibv_poll_cq(queue_->sends(), 1, &completion);
    return count == 1 && completion.status == IBV_WC_SUCCESS;
  }

 private:
  static constexpr std::uint32_t kSends = 16;
  std::unique_ptr<DatagramQueue> queue_;
  AddressHandle handle_;
};

// Asks for an RDMA connection with this private data, and returns how that ends. RIPC_OK: it was accepted.
inline Status ask_for_connection(const DevicePort& port, std::uint16_t at, const PrivateData& private_data) {
  memory::Pool pool(std::uint64_t{64} << 20);
  const auto registrar = std::make_shared<Registrar>(port.device, pool);
  const std::unique_ptr<EventLoop> loop = EventLoop::create().value();
  remote::Endpoint here;
  EXPECT_TRUE(remote::Endpoint::parse(port.ip, 0, here));
  Status outcome(RIPC_TIMEOUT);
  std::shared_ptr<QueuePairConnection> connection;
  const std::unique_ptr<ConnectionManager> manager =
      ConnectionManager::start(port.device->library, *loop, {}, [](const IdPointer&, const PrivateData&) {
        return Result<ConnectionManager::Acceptance>(RIPC_REFUSED);
      }).value();
  const auto end = [&](Status status) {
    outcome = std::move(status);
    loop->stop();
  };
  (void)manager->dial(here, here.with_port(at), private_data, 1, kLimit,
                      {.prepare = [&](const IdPointer& id) -> Result<ibv_qp*> {
                         connection =
                             QueuePairConnection::create(registrar, id, *loop, std::make_shared<Tally>()).value();
                         return connection->pair();
                       },
                       .accepted = [&](const IdPointer&, const PrivateData&) -> Status {
                         end(RIPC_OK);
                         return {};
                       },
                       .ended = end});
  loop->run();
  if (connection) connection->close();
  return outcome;
}

}  // namespace ripc::internal::verbs
