// SPDX-License-Identifier: Apache-2.0
#include "spi/record_rights.hpp"

#include <memory>

#include "base/group_id.hpp"
#include "base/plain_text.hpp"

namespace ripc::internal::spi {
namespace {

std::string what_it_is(const ServiceRecord& record) {
  return record.name.empty() ? "the ID " + id_text(record.id) : "the name '" + record.name + "'";
}

bool has_right_to_displace(const ServiceRecord& record, const ServiceRecord& former,
                           const security::Credentials& credentials) {
  if (!credentials.trust || former.member == record.member) return true;
  const std::shared_ptr<const security::Trust> trust = credentials.trust->current();
  // It was removed, or has another name now.
  if (!former.member.empty() && trust->member_named(former.member) == nullptr) return true;
  const security::Trust::Member* const member = trust->member_named(record.member);
  return member != nullptr && trust->is_given(*member, record.name, record.id);
}

bool keep(std::span<const std::byte> bytes, MulticastPacket& packet, const security::Credentials& credentials,
          std::string_view purpose, Refusals& refusals) {
  if (!credentials.trust) return true;
  const std::shared_ptr<const security::Trust> trust = credentials.trust->current();
  const security::Trust::Member* const member = packet.signer ? trust->member(*packet.signer) : nullptr;
  if (member == nullptr) {
    refusals.unproven += packet.services.size();
    packet.services.clear();
    return true;
  }
  if (!verify_signer(bytes, packet.header, *packet.signer, purpose)) return false;
  std::erase_if(packet.services, [&](PacketService& service) {
    ServiceRecord& record = service.record;
    record.member = member->name;
    if (service.is_gone) return false;
    if (!trust->may_hold(*member, record.name, record.id)) {
      ++refusals.not_permitted;
      return true;
    }
    refusals.not_permitted +=
        std::erase_if(record.groups, [&](ripc_service_id group) { return !trust->may_join(*member, group); });
    return false;
  });
  return true;
}

}  // namespace

bool keep_permitted(std::span<const std::byte> bytes, MulticastPacket& packet, const security::Credentials& credentials,
                    std::string_view purpose, Refusals& refusals) {
  Refusals now;
  const bool is_genuine = keep(bytes, packet, credentials, purpose, now);
  refusals += now;
  const std::uint64_t count = now.unproven + now.not_permitted + (is_genuine ? 0 : 1);
  if (count != 0) security::Counters::add(credentials.counters->records_refused, count);
  return is_genuine;
}

bool may_displace(const ServiceRecord& record, const ServiceRecord& former, const security::Credentials& credentials) {
  if (has_right_to_displace(record, former, credentials)) return true;
  security::Counters::add(credentials.counters->records_refused);
  return false;
}

Status check_displacing(const ServiceRecord& record, const ServiceRecord& holder,
                        const security::Credentials& credentials) {
  if (has_right_to_displace(record, holder, credentials)) return {};
  return Status(RIPC_PERMISSION, "The trust file " + credentials.trust->path() + " does not let " +
                                     (record.member.empty() ? "this context" : record.member) + " take over " +
                                     what_it_is(record) + " from " +
                                     (holder.member.empty() ? "its holder" : holder.member) +
                                     ": take another ID, or add it to holds= of the member that may have it.");
}

Status check_own_rights(const ServiceRecord& record, const security::Credentials& credentials) {
  if (!credentials.trust) return {};
  const std::string file = "The trust file " + credentials.trust->path();
  // Without a right, others do not find the service, but its messages get through.
  const bool needs_right = !is_random(record.id) || !record.name.empty() || !record.groups.empty();
  if (!credentials.identity)
    return needs_right ? Status(RIPC_PERMISSION, file + " says who may hold " + what_it_is(record) +
                                                     ", but this context has no identity: make one with `ripc key new "
                                                     "--identity`, or name it with RIPC_IDENTITY_FILE.")
                       : Status();
  const std::shared_ptr<const security::Trust> trust = credentials.trust->current();
  const security::Trust::Member* const member = trust->member(credentials.identity->public_key());
  if (member == nullptr)
    return needs_right
               ? Status(RIPC_PERMISSION, file + " does not have this context's identity: run `ripc trust add NAME " +
                                             security::public_key_text(credentials.identity->public_key()) +
                                             "` where the file is made, and copy it to the hosts.")
               : Status();
  if (!trust->may_hold(*member, record.name, record.id))
    return Status(RIPC_PERMISSION, file + " does not let " + member->name + " hold " + what_it_is(record) +
                                       ": add it to holds= of " + member->name + ", unless another member has it.");
  for (const ripc_service_id group : record.groups) {
    if (!trust->may_join(*member, group))
      return Status(RIPC_PERMISSION, file + " does not let " + member->name + " join the group " + id_text(group) +
                                         ": add its name to joins= of " + member->name + ".");
  }
  return {};
}

std::string own_member(const security::Credentials& credentials) {
  if (!credentials.trust || !credentials.identity) return {};
  const std::shared_ptr<const security::Trust> trust = credentials.trust->current();
  const security::Trust::Member* const member = trust->member(credentials.identity->public_key());
  return member != nullptr ? member->name : std::string();
}

}  // namespace ripc::internal::spi
