// SPDX-License-Identifier: Apache-2.0
// What the trust file says about records of services: who may publish them, and what of others' is believed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "security/credentials.hpp"
#include "spi/service_packet.hpp"

namespace ripc::internal::spi {

// Records that were ignored because of the trust file.
struct Refusals {
  std::uint64_t unproven = 0;       // of no one that it knows: not signed by an identity, or by one it does not have
  std::uint64_t not_permitted = 0;  // of a member that may not hold the ID or name, or not be in the group

  Refusals& operator+=(const Refusals& other) noexcept {
    unproven += other.unproven;
    not_permitted += other.not_permitted;
    return *this;
  }
};

// Takes out of the packet, whose bytes are given, every service and every group that its signer may not have. A
// signer that may gets its name into ServiceRecord::member. Without a trust file all stays as it is. False: the
// signature is wrong, and nothing of it must be used. What is refused is counted, also in credentials.counters. Some
// 100 us, if there is a service.
bool keep_permitted(std::span<const std::byte> bytes, MulticastPacket& packet, const security::Credentials& credentials,
                    std::string_view purpose, Refusals& refusals);

// Whether `record`, which was kept, may take the ID from `former`. A member that the trust file gives the ID may; else
// only the one that had it; others are counted. True without a trust file.
bool may_displace(const ServiceRecord& record, const ServiceRecord& former, const security::Credentials& credentials);

// Whether this context may publish the record. RIPC_PERMISSION says what to do.
Status check_own_rights(const ServiceRecord& record, const security::Credentials& credentials);

// The name of this context in the trust file; empty: none.
std::string own_member(const security::Credentials& credentials);

}  // namespace ripc::internal::spi
