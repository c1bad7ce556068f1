// SPDX-License-Identifier: Apache-2.0
// What the trust file says about records of services: who may publish them, and which records of others are believed.
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
  std::uint64_t unproven = 0;       // from no one in that file: not signed by an identity, or by an unknown one
  std::uint64_t not_permitted = 0;  // from a member that may not hold the ID or name, or be in the group

  Refusals& operator+=(const Refusals& other) noexcept {
    unproven += other.unproven;
    not_permitted += other.not_permitted;
    return *this;
  }
};

// Removes from the packet, whose encoded form is `bytes`, every service and group that its signer may not have. Sets
// ServiceRecord::member of the rest to the signer's name. Without a trust file, changes nothing. False: the signature
// is wrong, and nothing in the packet may be used. Counts refusals, also in credentials.counters. Takes about 100 us if
// a member has signed the packet.
bool keep_permitted(std::span<const std::byte> bytes, MulticastPacket& packet, const security::Credentials& credentials,
                    std::string_view purpose, Refusals& refusals);

// Whether `record`, which keep_permitted() has kept, may take the ID from `former`. A member to which the trust file
// gives the ID may; otherwise only the former holder may, whatever context the record names. A former holder that is
// not in the trust file any more keeps nothing. Refusals are counted. True without a trust file.
bool may_displace(const ServiceRecord& record, const ServiceRecord& former, const security::Credentials& credentials);

// Whether others let `record`, which this context wants to publish, take the ID from `holder`, by the same rule. The
// text of RIPC_PERMISSION says what to do.
Status check_displacing(const ServiceRecord& record, const ServiceRecord& holder,
                        const security::Credentials& credentials);

// Whether this context may publish the record. The text of RIPC_PERMISSION says what to do.
Status check_own_rights(const ServiceRecord& record, const security::Credentials& credentials);

// The name of this context in the trust file; empty: none.
std::string own_member(const security::Credentials& credentials);

}  // namespace ripc::internal::spi
