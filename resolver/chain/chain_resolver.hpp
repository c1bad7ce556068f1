// SPDX-License-Identifier: Apache-2.0
// Several resolvers as one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "spi/resolver.hpp"

namespace ripc::internal::resolver {

// As thread-safe as its resolvers. Owns them.
class ChainResolver final : public spi::Resolver {
 public:
  // resolvers: in the order in which they are asked. hint: returns a text that is added to the error when nothing is
  // found, such as which resolvers were not asked; "" adds nothing. Any thread may call it.
  using Hint = std::function<std::string()>;
  explicit ChainResolver(std::vector<std::unique_ptr<spi::Resolver>> resolvers, Hint hint = {});

  std::string_view name() const noexcept override { return "chain"; }

  // The first answer wins. Each resolver gets the same deadline; one that is asked after the deadline still answers
  // what it can at once. A resolver that fails (its file has a mistake, its network is down) does not keep the others
  // from answering; if none answers, the first failure is returned, and RIPC_NO_SERVICE only if all returned it.
  Result<spi::ServiceRecord> resolve(ripc_service_id id, Deadline deadline) override;

  // The first successor that one of the resolvers knows of.
  Result<spi::ServiceRecord> successor(const spi::ServiceRecord& former, Deadline deadline) override;

  // Publishes in all resolvers, with one incarnation. If one refuses or fails, the record is withdrawn from the others
  // and that status is returned. Holders that were displaced by then stay in *displaced and have lost the ID. Each
  // displaced holder is named once.
  Status publish(spi::ServiceRecord& record, bool takeover, std::vector<spi::ServiceRecord>* displaced) override;

  // Updates the record in all resolvers, even after one has failed; returns the first failure.
  Status update(const spi::ServiceRecord& record) override;

  // Visits each member once. If there are several records of one service, it visits the one with the largest
  // incarnation, or the first of equal ones. If one resolver fails, the others are still asked; returns the first
  // failure.
  Status members(ripc_service_id group, Deadline deadline, const spi::Visit& visit) override;

  void withdraw(const spi::ServiceRecord& record) noexcept override;
  void invalidate(const spi::ServiceRecord& record) noexcept override;

  // Observes through each resolver; returns the first failure.
  Status observe(EventLoop& loop, spi::Observer observer, spi::Observe what) override;

  // Visits each service once, with the record of the first resolver that lists it. If one fails, the others are still
  // listed; returns the first failure.
  Status list(const spi::Visit& visit) override;

 private:
  using Ask = std::function<Result<spi::ServiceRecord>(spi::Resolver&)>;
  Result<spi::ServiceRecord> first_found(ripc_service_id id, const Ask& ask);
  // Asks each resolver, even after one has failed; returns the first failure.
  template <typename AskOne>
  Status ask_all(const AskOne& ask);

  const std::vector<std::unique_ptr<spi::Resolver>> resolvers_;
  const Hint hint_;
};

}  // namespace ripc::internal::resolver
