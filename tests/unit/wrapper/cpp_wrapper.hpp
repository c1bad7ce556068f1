// SPDX-License-Identifier: Apache-2.0
// Two peers of the C++ interface.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <utility>

#include "ripc/ripc.hpp"
#include "support/temporary_directory.hpp"

namespace wrapper {

inline constexpr auto kPatience = std::chrono::seconds(20);

// Two peers in a runtime directory of their own.
class CppWrapper : public testing::Test {
 protected:
  void SetUp() override {
    ripc::ContextOptions options;
    options.runtime_directory = folder_.path();
    auto here = ripc::Context::create(options);
    auto there = ripc::Context::create(options);
    ASSERT_TRUE(here.ok()) << here.error().text();
    ASSERT_TRUE(there.ok()) << there.error().text();
    here_ = *std::move(here);
    there_ = *std::move(there);
    sender_ = registered(here_, {});
    receiver_ = registered(there_, {.name = "receiver"});
  }
  void TearDown() override {
    sender_.unregister();
    receiver_.unregister();
    here_.destroy();
    there_.destroy();
  }

  static ripc::Service registered(ripc::Context& context, const ripc::ServiceOptions& options) {
    auto service = context.register_service(options);
    EXPECT_TRUE(service.ok()) << service.error().text();
    return service.ok() ? *std::move(service) : ripc::Service();
  }

  support::TemporaryDirectory folder_;
  ripc::Context here_, there_;
  ripc::Service sender_, receiver_;
};

}  // namespace wrapper
