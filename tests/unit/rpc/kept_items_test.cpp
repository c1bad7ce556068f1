// SPDX-License-Identifier: Apache-2.0
#include "rpc/kept_items.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "core/protocol/outgoing.hpp"
#include "wire/call.hpp"

namespace ripc::internal::rpc {
namespace {

std::string_view text_of(const ripc_item& item) { return {static_cast<const char*>(item.data), item.size}; }

TEST(KeptItems, AreCopiesButForWhatIsLent) {
  std::string first = "first";
  std::string given = "given";
  const std::string lent = "lent";
  const ripc_item items[] = {{first.data(), first.size(), RIPC_ITEM_SHORT, 0},
                             {nullptr, 0, RIPC_ITEM_AUTO, 0},
                             {lent.data(), lent.size(), RIPC_ITEM_LONG, 0},
                             {given.data(), given.size(), RIPC_ITEM_GIVEN, 0}};
  KeptItems kept;
  kept.assign(items);
  first = given = "!!!!!";
  ASSERT_EQ(kept.items().size(), 4u);
  EXPECT_EQ(text_of(kept.items()[0]), "first");
  EXPECT_EQ(kept.items()[0].kind, static_cast<std::uint32_t>(RIPC_ITEM_SHORT));
  EXPECT_EQ(kept.items()[1].size, 0u);
  EXPECT_EQ(kept.items()[2].data, lent.data());
  EXPECT_EQ(text_of(kept.items()[3]), "given");
  EXPECT_EQ(kept.items()[3].kind, static_cast<std::uint32_t>(RIPC_ITEM_AUTO));
  EXPECT_EQ(kept.bytes(), 10u);
}

TEST(KeptItems, TellOfReturnBuffersAndBringWhatAPacketMayHaveCarried) {
  const std::string small = "small";
  const std::string large(spi::kMostCarried + 1, 'x');
  const ripc_item items[] = {{small.data(), small.size(), RIPC_ITEM_RETURN, 3},
                             {large.data(), large.size(), RIPC_ITEM_RETURN, 4}};
  KeptItems kept;
  kept.assign(items);
  EXPECT_EQ(kept.bytes(), KeptItems::bytes_of(items));
  for (const std::size_t index : {0u, 1u}) {
    const ripc_item& item = kept.items()[index];
    EXPECT_EQ(item.kind, static_cast<std::uint32_t>(RIPC_ITEM_AUTO));
    const auto returned = wire::call::decode_returned(core::bytes_of(item));
    ASSERT_TRUE(returned.ok());
    EXPECT_EQ(returned->index, items[index].return_index);
    EXPECT_EQ(returned->size, items[index].size);
    EXPECT_EQ(returned->bytes.size(), index == 0 ? small.size() : 0);
  }
}

TEST(KeptItems, TakeNoNewMemoryWhenTheyAreUsedAgain) {
  const std::string text(100, 'x');
  const ripc_item item{text.data(), text.size(), RIPC_ITEM_AUTO, 0};
  KeptItems kept;
  kept.assign({&item, 1});
  const void* const before = kept.items()[0].data;
  kept.clear();
  EXPECT_EQ(kept.bytes(), 0u);
  kept.assign({&item, 1});
  EXPECT_EQ(kept.items()[0].data, before);
}

}  // namespace
}  // namespace ripc::internal::rpc
