// SPDX-License-Identifier: Apache-2.0
// A hostile peer: it encodes the control protocol itself and writes whatever it likes into the memory that it shares.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/runtime_directory.hpp"
#include "base/shared_memory.hpp"
#include "fault_support.hpp"
#include "transport/shm/control_connection.hpp"
#include "transport/shm/layout.hpp"
#include "wire/packet.hpp"
#include "wire/shm_control.hpp"

namespace fault {

namespace control = ripc::internal::wire::shm_control;
namespace shm = ripc::internal::shm;

// One end of a link that the hostile side has mapped.
struct HostileLink {
  std::uint64_t link = 0;
  shm::Geometry geometry;
  ripc::internal::Mapping memory;
  ripc::internal::UniqueFd memory_fd, doorbell, state_fd;
  ripc::internal::Mapping state_page;  // of a hostile service only
  std::uint32_t next = 0;              // packet

  shm::Control& page() const { return *reinterpret_cast<shm::Control*>(memory.data()); }
  shm::Cell& cell(std::uint32_t index) const {
    return reinterpret_cast<shm::Cell*>(memory.data() + shm::kControlSize)[index & (geometry.cells - 1)];
  }
  // Commits a packet of up to 120 bytes as an honest sender would.
  void commit(const std::vector<std::byte>& packet);
  void ring() const;
};

class Hostile {
 public:
  // Connects to the context; false from connected() if it cannot.
  Hostile(const std::string& directory, std::uint64_t victim);

  bool connected() const { return connection_ != nullptr; }
  std::uint64_t context() const { return context_; }
  bool greet();
  bool send_raw(const std::vector<std::byte>& bytes, std::span<const int> descriptors = {});
  template <typename T>
  bool send(const T& message, std::span<const int> descriptors = {}) {
    std::vector<std::byte> bytes;
    return control::encode(message, bytes) == RIPC_OK && send_raw(bytes, descriptors);
  }
  // Waits for the next message of type T and drops all others. Its descriptors are in received(). Empty if the
  // connection closed or no such message came in time.
  template <typename T>
  std::optional<T> wait_for(std::uint64_t limit = 5 * kSecond) {
    std::optional<T> found;
    eventually(
        [&] {
          connection_->flush();
          while (!closed_ && !found) {
            const auto event = connection_->receive(received_);
            if (event == shm::ControlConnection::Event::closed) closed_ = true;
            if (event != shm::ControlConnection::Event::message) break;
            auto decoded = control::decode(std::span(received_.bytes).first(received_.size));
            if (!decoded.ok()) continue;
            if (const T* message = std::get_if<T>(&*decoded)) found = *message;
          }
          return closed_ || found;
        },
        limit);
    return found;
  }
  // Reads and drops what has arrived; true if the other side has closed the connection.
  bool closed();
  shm::Received& received() { return received_; }
  // Opens a link as a sender.
  std::optional<HostileLink> open(ripc_service_id service, std::uint64_t link);

 private:
  std::uint64_t context_;
  std::unique_ptr<shm::ControlConnection> connection_;
  shm::Received received_;
  bool closed_ = false;
};

// The id of the only context of the runtime directory; 0 if there is not exactly one.
std::uint64_t only_context(const std::string& directory);
// A complete packet with one short item.
std::vector<std::byte> short_packet(ripc_service_id source, std::span<const std::byte> item);
// A complete packet with long items only.
std::vector<std::byte> long_packet(ripc_service_id source, std::span<const ripc::internal::wire::Descriptor> items);
// A memfd; an empty descriptor on error, so that the program that uses it fails.
ripc::internal::UniqueFd make_memfd(std::size_t size, bool sealed);

}  // namespace fault
