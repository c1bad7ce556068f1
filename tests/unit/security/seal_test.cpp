// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "security/cipher.hpp"
#include "security/record.hpp"
#include "security/sealed_datagram.hpp"

namespace ripc::internal::security {
namespace {

using Bytes = std::vector<std::byte>;

Bytes some(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

std::vector<Suite> suites() {
  std::vector<Suite> all{Suite::chacha20_poly1305};
  if ((own_suites() & static_cast<std::uint32_t>(Suite::aes256_gcm)) != 0) all.push_back(Suite::aes256_gcm);
  return all;
}

TEST(Cipher, OpensWhatItSealedAndNothingElse) {
  for (const Suite suite : suites()) {
    for (const bool hides : {true, false}) {
      for (const std::size_t size : {0u, 1u, 16u, 100u, 767u, 768u, 16384u, 65000u}) {
        SCOPED_TRACE(std::string(name_of(suite)) + (hides ? " hides " : " signs ") + std::to_string(size));
        const Secret key = Secret::random();
        Cipher sealer(suite, key, hides);
        Cipher opener(suite, key, hides);
        const Bytes text = some(4 + size);
        Bytes sealed = text;
        sealed.resize(text.size() + Cipher::kTagSize);
        sealer.seal(5, sealed.data(), 4, size);
        if (size >= 16) {
          EXPECT_EQ(std::memcmp(sealed.data() + 4, text.data() + 4, size) == 0, !hides);
        }
        for (const std::size_t turned : {std::size_t{0}, 4 + size / 2, sealed.size() - 1}) {
          Bytes forged = sealed;
          forged[turned] ^= std::byte{1};
          EXPECT_FALSE(opener.open(5, forged.data(), 4, size)) << turned;
        }
        Bytes copy = sealed;
        EXPECT_FALSE(opener.open(6, copy.data(), 4, size));
        copy = sealed;
        Cipher other(suite, Secret::random(), hides);
        EXPECT_FALSE(other.open(5, copy.data(), 4, size));
        ASSERT_TRUE(opener.open(5, sealed.data(), 4, size));
        EXPECT_EQ(std::memcmp(sealed.data(), text.data(), text.size()), 0);
      }
    }
  }
}

TEST(Cipher, SealsAndOpensTextsThatLieElsewhere) {
  for (const Suite suite : suites()) {
    for (const bool hides : {true, false}) {
      for (const std::size_t size : {1u, 100u, 16384u}) {
        SCOPED_TRACE(std::string(name_of(suite)) + (hides ? " hides " : " signs ") + std::to_string(size));
        const Secret key = Secret::random();
        Cipher sealer(suite, key, hides);
        Cipher opener(suite, key, hides);
        const Bytes text = some(size);
        Bytes inside = some(4);
        inside.insert(inside.end(), text.begin(), text.end());
        inside.resize(4 + size + Cipher::kTagSize);
        Bytes elsewhere = some(4);
        elsewhere.resize(inside.size());
        sealer.seal(7, inside.data(), 4, size);
        sealer.seal(7, elsewhere.data(), 4, size, text.data());
        EXPECT_EQ(elsewhere, inside);
        Bytes opened(size);
        ASSERT_TRUE(opener.open(7, elsewhere.data(), 4, size, opened.data()));
        EXPECT_EQ(opened, text);
      }
    }
  }
}

// A peer may have none of the faster libraries.
TEST(Cipher, EveryLibrarySealsAsLibsodiumSeals) {
  for (const Suite suite : suites()) {
    for (const MultiBuffer* const multi_buffer : {MultiBuffer::get(), static_cast<const MultiBuffer*>(nullptr)}) {
      for (const bool hides : {true, false}) {
        for (const std::size_t size : {1u, 92u, 767u, 768u, 4092u, 16384u}) {
          SCOPED_TRACE(std::string(name_of(suite)) + " " + std::to_string(size));
          const Secret key = Secret::random();
          Cipher cipher(suite, key, hides, multi_buffer);
          const Bytes text = some(4 + size);
          Bytes sealed = text;
          sealed.resize(text.size() + Cipher::kTagSize);
          cipher.seal(9, sealed.data(), 4, size);
          Bytes expected = text;
          expected.resize(sealed.size());
          const std::size_t head = hides ? 4 : 4 + size;
          const std::array<unsigned char, 12> nonce{0, 0, 0, 0, 9};
          auto* const out = reinterpret_cast<unsigned char*>(expected.data()) + head;
          const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
          if (suite == Suite::aes256_gcm) {
            crypto_aead_aes256gcm_encrypt(out, nullptr, bytes + head, text.size() - head, bytes, head, nullptr,
                                          nonce.data(), key.data());
          } else {
            crypto_aead_chacha20poly1305_ietf_encrypt(out, nullptr, bytes + head, text.size() - head, bytes, head,
                                                      nullptr, nonce.data(), key.data());
          }
          EXPECT_EQ(sealed, expected);
          EXPECT_TRUE(cipher.open(9, sealed.data(), 4, size));
          sealed.resize(text.size());
          EXPECT_EQ(sealed, text);
        }
      }
    }
  }
}

TEST(Suite, IsTheBestThatBothHave) {
  EXPECT_EQ(choose_suite(3, 3), Suite::aes256_gcm);
  EXPECT_EQ(choose_suite(3, 2), Suite::chacha20_poly1305);
  EXPECT_EQ(choose_suite(2, 3), Suite::chacha20_poly1305);
}

// ---- Records -------------------------------------------------------------------------------------------------

Bytes record_of(RecordSealer& sealer, const Bytes& text) {
  Bytes record(kRecordHead + text.size() + Cipher::kTagSize);
  std::memcpy(record.data() + kRecordHead, text.data(), text.size());
  sealer.seal(record.data(), text.size());
  return record;
}

bool opens(RecordOpener& opener, Bytes record, const Bytes& text) {
  const auto size = RecordOpener::text_size(std::span(record).first<kRecordHead>());
  return size.ok() && kRecordOverhead + *size == record.size() && opener.open(record.data()) &&
         std::memcmp(record.data() + kRecordHead, text.data(), text.size()) == 0;
}

TEST(Records, ComeInOrderOrNotAtAll) {
  const Secret root = Secret::random();
  RecordSealer sealer({}, root);
  const Bytes text = some(1000);
  const Bytes first = record_of(sealer, text);
  const Bytes second = record_of(sealer, text);
  EXPECT_NE(first, second);
  RecordOpener in_order({}, root);
  EXPECT_TRUE(opens(in_order, first, text));
  EXPECT_TRUE(opens(in_order, second, text));
  RecordOpener replayed({}, root);
  EXPECT_TRUE(opens(replayed, first, text));
  EXPECT_FALSE(opens(replayed, first, text));
  RecordOpener skipped({}, root);
  EXPECT_FALSE(opens(skipped, second, text));
  RecordOpener other({}, Secret::random());
  EXPECT_FALSE(opens(other, first, text));
}

TEST(Records, GoOnWithTheNextKeyAfterSoManyBytesOrSoLong) {
  const Secret root = Secret::random();
  RecordSealer by_bytes({}, root, {.bytes = 2500});
  RecordOpener opener({}, root);
  const Bytes text = some(1000);
  int changes = 0;
  for (int i = 0; i < 10; ++i) {
    const Bytes record = record_of(by_bytes, text);
    changes += (record[3] & std::byte{0x80}) != std::byte{0} ? 1 : 0;
    EXPECT_TRUE(opens(opener, record, text)) << i;
  }
  EXPECT_EQ(changes, 4);
  RecordSealer by_time({}, root, {.time = 0});
  RecordOpener other({}, root);
  EXPECT_TRUE(opens(other, record_of(by_time, text), text));
  EXPECT_TRUE(opens(other, record_of(by_time, text), text));
}

TEST(Records, HaveASize) {
  std::array<std::byte, kRecordHead> head{};
  EXPECT_FALSE(RecordOpener::text_size(head).ok());
  head[1] = std::byte{0x40};  // 16384
  EXPECT_EQ(RecordOpener::text_size(head).ok(), true);
  head[0] = std::byte{1};
  EXPECT_FALSE(RecordOpener::text_size(head).ok());
  head = {std::byte{5}, std::byte{0}, std::byte{0}, std::byte{0x40}};
  EXPECT_FALSE(RecordOpener::text_size(head).ok());
}

// ---- Datagrams -----------------------------------------------------------------------------------------------

using Verdict = DatagramOpener::Verdict;

Bytes datagram_of(DatagramSealer& sealer, const Bytes& text, Nanoseconds now = 0) {
  Bytes datagram(text.size() + kSealedOverhead);
  std::memcpy(datagram.data() + kSealedHead, text.data(), text.size());
  EXPECT_TRUE(sealer.seal(datagram.data(), text.size(), now));
  return datagram;
}

Verdict open(DatagramOpener& opener, Bytes datagram, const Bytes& expected) {
  std::span<std::byte> text;
  const Verdict verdict = opener.open(datagram, text);
  if (verdict == Verdict::fresh) {
    EXPECT_EQ(Bytes(text.begin(), text.end()), expected);
  }
  return verdict;
}

TEST(SealedDatagrams, MayOvertakeEachOtherButComeOnce) {
  const Secret root = Secret::random();
  DatagramSealer sealer({}, root);
  DatagramOpener opener({}, root);
  const Bytes text = some(28);
  std::vector<Bytes> all;
  for (int i = 0; i < 8; ++i) all.push_back(datagram_of(sealer, text));
  for (const std::size_t index : {1u, 0u, 7u, 3u}) EXPECT_EQ(open(opener, all[index], text), Verdict::fresh) << index;
  for (const std::size_t index : {1u, 0u, 7u, 3u})
    EXPECT_EQ(open(opener, all[index], text), Verdict::replayed) << index;
  for (const std::size_t index : {2u, 4u, 5u, 6u}) EXPECT_EQ(open(opener, all[index], text), Verdict::fresh) << index;
}

TEST(SealedDatagrams, TooOldOnesCountAsReplayed) {
  const Secret root = Secret::random();
  DatagramSealer sealer({}, root);
  DatagramOpener opener({}, root);
  const Bytes text = some(10);
  const Bytes first = datagram_of(sealer, text);
  Bytes last;
  for (std::uint64_t i = 0; i < NumberWindow::kSize; ++i) last = datagram_of(sealer, text);
  EXPECT_EQ(open(opener, last, text), Verdict::fresh);
  EXPECT_EQ(open(opener, first, text), Verdict::replayed);
}

TEST(SealedDatagrams, ForgedReflectedAndCutOnesAreRefused) {
  const Secret root = Secret::random();
  DatagramSealer sealer({}, root);
  DatagramOpener opener({}, root);
  DatagramOpener back({}, Secret::random());
  const Bytes text = some(40);
  const Bytes good = datagram_of(sealer, text);
  for (std::size_t byte = 0; byte < good.size(); ++byte) {
    Bytes forged = good;
    forged[byte] ^= std::byte{0x40};
    EXPECT_EQ(open(opener, forged, text), Verdict::forged) << byte;
  }
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_EQ(open(opener, Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)), text),
              Verdict::forged);
  EXPECT_EQ(open(back, good, text), Verdict::forged);
  EXPECT_EQ(open(opener, good, text), Verdict::fresh);
}

TEST(SealedDatagrams, GoOnWithOtherKeysAfterSoLong) {
  const auto epoch_after_many = [](Nanoseconds time) {
    DatagramSealer sealer({}, Secret::random(), {.time = time});
    Bytes last;
    for (int i = 0; i < 100; ++i) last = datagram_of(sealer, some(10));
    return last[1];
  };
  EXPECT_NE(epoch_after_many(0), std::byte{0});
  EXPECT_EQ(epoch_after_many(KeyLife{}.time), std::byte{0});
}

TEST(SealedDatagrams, AQuietLinkKeepsNoKeyForLongerThanABusyOne) {
  const KeyLife life;
  const Secret root = Secret::random();
  const Nanoseconds begin = monotonic_now();
  DatagramSealer sealer({}, root);
  DatagramOpener opener({}, root);
  const Bytes text = some(10);
  // Each datagram comes about ten minutes after the one before, and none is the 32nd.
  for (unsigned epoch = 0; epoch < 20; ++epoch) {
    Bytes bytes = datagram_of(sealer, text, begin + epoch * (life.time + 1'000'000'000));
    EXPECT_EQ(bytes[1], static_cast<std::byte>(epoch));
    EXPECT_EQ(open(opener, bytes, text), Verdict::fresh);
    bytes = datagram_of(sealer, text, begin + epoch * (life.time + 1'000'000'000) + life.time / 2);
    EXPECT_EQ(bytes[1], static_cast<std::byte>(epoch));
  }
}

TEST(SealedDatagrams, GoOnWithOtherKeysAlsoWhereDatagramsAreLost) {
  const Secret root = Secret::random();
  DatagramSealer sealer({}, root, {.bytes = 150});
  DatagramOpener opener({}, root);
  const Bytes text = some(100);
  std::vector<Bytes> all;
  for (int i = 0; i < 300; ++i) all.push_back(datagram_of(sealer, text));  // an epoch each
  EXPECT_EQ(open(opener, all[1], text), Verdict::fresh);
  EXPECT_EQ(open(opener, all[0], text), Verdict::fresh);   // of the epoch before
  EXPECT_EQ(open(opener, all[90], text), Verdict::fresh);  // many were lost
  EXPECT_EQ(open(opener, all[88], text), Verdict::forged);
  EXPECT_EQ(open(opener, all[200], text), Verdict::fresh);
  EXPECT_EQ(open(opener, all[299], text), Verdict::fresh);
}

}  // namespace
}  // namespace ripc::internal::security
