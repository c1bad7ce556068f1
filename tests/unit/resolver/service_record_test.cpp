// SPDX-License-Identifier: Apache-2.0
#include "resolver/local/service_record.hpp"

#include <random>

#include "resolver_helpers.hpp"

namespace ripc::internal::resolver {
namespace {

ServiceRecord sample() {
  ServiceRecord record;
  record.id = 0x8000000000000001;
  record.name = "file-server \xc3\xa4";
  record.incarnation = 1'790'000'000'123'456'789;
  record.context = 0xfedcba9876543210;
  record.pid = 4321;
  record.addresses = {{"shm", "#fedcba9876543210"}, {"socket", "10.0.0.7:7000"}};
  return record;
}

std::string encoded(const ServiceRecord& record) {
  Result<std::string> text = encode_service_record(record);
  EXPECT_TRUE(text.ok()) << text.status().text();
  return text.ok() ? *text : "";
}

ripc_status decoded_status(std::string_view text, ripc_service_id id = sample().id) {
  return decode_service_record(text, id).status().code();
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(ServiceRecord, IsDecodedAsItWasEncoded) {
  const Result<ServiceRecord> record = decode_service_record(encoded(sample()), sample().id);
  ASSERT_TRUE(record.ok()) << record.status().text();
  EXPECT_EQ(*record, sample());
}

TEST(ServiceRecord, ExtremesAreDecodedAgain) {
  ServiceRecord record;
  record.id = UINT64_MAX;
  record.incarnation = UINT64_MAX;
  record.context = UINT64_MAX;
  record.pid = UINT32_MAX;
  record.name = std::string(spi::kMaxNameSize, 'n');
  for (std::size_t i = 0; i < spi::kMaxAddresses; ++i)
    record.addresses.push_back({std::string(spi::kMaxTransportSize, 't'), std::string(500, 'l')});
  EXPECT_EQ(*decode_service_record(encoded(record), record.id), record);
  ServiceRecord least;
  least.id = 1;
  EXPECT_EQ(*decode_service_record(encoded(least), 1), least);
}

TEST(ServiceRecord, TheTextIsOneLineOfTheDocumentedForm) {
  ServiceRecord record = sample();
  record.name = "n";
  record.addresses.resize(1);
  const std::string text = encoded(record);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(text.substr(0, 20), "{\"format\":1,\"check\":");
  EXPECT_NE(text.find("\"record\":{\"addresses\":[{\"locator\":\"#fedcba9876543210\",\"transport\":\"shm\"}],"
                      "\"context\":\"fedcba9876543210\",\"id\":\"8000000000000001\","
                      "\"incarnation\":1790000000123456789,\"name\":\"n\",\"pid\":4321}"),
            std::string::npos)
      << text;
}

TEST(ServiceRecord, WhiteSpaceAfterItIsAllowed) {
  EXPECT_EQ(decoded_status(encoded(sample()) + std::string(1000, ' ')), RIPC_OK);
}

TEST(ServiceRecord, NoBeginningOfATextIsARecord) {
  const std::string text = encoded(sample());
  for (std::size_t size = 0; size + 1 < text.size(); ++size)
    EXPECT_EQ(decoded_status(std::string_view(text).substr(0, size)), RIPC_CORRUPT) << size;
}

// What a reader may find while the file is overwritten in place.
TEST(ServiceRecord, NoMixOfTwoTextsIsARecord) {
  ServiceRecord other = sample();
  other.incarnation += 1000;
  other.context = 0x0123456789abcdef;
  other.pid = 8765;
  other.addresses = {{"shm", "#0123456789abcdef"}, {"socket", "10.0.0.8:8000"}};
  const std::string old_text = encoded(sample());
  const std::string new_text = encoded(other);
  ASSERT_EQ(old_text.size(), new_text.size());
  for (std::size_t size = 0; size <= new_text.size(); ++size) {
    const std::string mixed = new_text.substr(0, size) + old_text.substr(size);
    if (mixed != old_text && mixed != new_text) {
      EXPECT_EQ(decoded_status(mixed), RIPC_CORRUPT) << size;
    }
  }
}

TEST(ServiceRecord, AnyChangedByteIsNoticed) {
  const std::string text = encoded(sample());
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    const Result<ServiceRecord> record = decode_service_record(changed, sample().id);
    EXPECT_FALSE(record.ok()) << changed;
  }
}

TEST(ServiceRecord, TheRecordOfAnotherIdIsRefused) {
  EXPECT_EQ(decoded_status(encoded(sample()), sample().id + 1), RIPC_CORRUPT);
}

TEST(ServiceRecord, AnotherFormatIsAVersionMismatch) {
  const Status status = decode_service_record("{\"format\":3}", 1).status();
  EXPECT_EQ(status.code(), RIPC_VERSION_MISMATCH);
  EXPECT_TRUE(mentions(status, "format 3")) << status.text();
  EXPECT_EQ(decoded_status(replaced(encoded(sample()), "\"format\":1", "\"format\":18446744073709551615")),
            RIPC_VERSION_MISMATCH);
  for (const char* format : {"-1", "1.0", "\"1\"", "null", "18446744073709551616"})
    EXPECT_EQ(decoded_status(replaced(encoded(sample()), "\"format\":1", "\"format\":" + std::string(format))),
              RIPC_CORRUPT)
        << format;
}

TEST(ServiceRecord, MembersOfTheWrongTypeOrMissingAreRefused) {
  ServiceRecord record;
  record.id = sample().id;
  record.name = "n";
  record.incarnation = 5;
  record.context = 0xaa;
  record.pid = 7;
  record.addresses = {{"shm", "#1"}};
  const std::string good = encoded(record);
  const std::pair<const char*, const char*> changes[] = {
      {R"("id":"8000000000000001")", R"("id":9223372036854775809)"},
      {R"("id":"8000000000000001")", R"("id":"800000000000001")"},
      {R"("id":"8000000000000001")", R"("id":"800000000000000G")"},
      {R"("id")", R"("Id")"},
      {R"("name":"n")", R"("name":1)"},
      {R"("name":"n")", R"("name":null)"},
      {R"("name":"n")", R"("name":"a/b")"},
      {R"("name":"n")", R"("name":"a\u0000b")"},
      {R"("name")", R"("nome")"},
      {R"("incarnation":5)", R"("incarnation":-5)"},
      {R"("incarnation":5)", R"("incarnation":5.0)"},
      {R"("incarnation":5)", R"("incarnation":18446744073709551616)"},
      {R"("incarnation":5)", R"("incarnation":"5")"},
      {R"("context":"00000000000000aa")", R"("context":170)"},
      {R"("context":"00000000000000aa")", R"("context":"00000000000000AA")"},
      {R"("pid":7)", R"("pid":4294967296)"},
      {R"("pid":7)", R"("pid":[])"},
      {R"([{"locator":"#1","transport":"shm"}])", R"({"locator":"#1","transport":"shm"})"},
      {R"({"locator":"#1","transport":"shm"})", R"("shm:#1")"},
      {R"({"locator":"#1","transport":"shm"})", R"({"transport":"shm"})"},
      {R"("transport":"shm")", R"("transport":"")"},
      {R"("transport":"shm")", R"("transport":"0123456789abcdef")"},
      {R"("locator":"#1")", R"("locator":"")"},
      {R"("locator":"#1")", R"("locator":{"x":1})"},
      {R"("locator":"#1")", R"("locator":"a\u0000b")"},
      {R"("locator":"#1")", R"("locator":"/run/other#1")"},
  };
  for (const auto& [from, to] : changes) {
    const Status status = decode_service_record(replaced(good, from, to), record.id).status();
    EXPECT_EQ(status.code(), RIPC_CORRUPT) << to;
    EXPECT_FALSE(mentions(status, "check sum")) << to << ": the check sum alone shows it";
  }
}

TEST(ServiceRecord, UnknownMembersAreRefused) {
  for (const auto& [from, to] :
       {std::pair{"\"record\":{", "\"more\":1,\"record\":{"}, std::pair{"\"record\":{", "\"record\":{\"new\":1,"}})
    EXPECT_EQ(decoded_status(replaced(encoded(sample()), from, to)), RIPC_CORRUPT) << to;
}

TEST(ServiceRecord, DeepNestingIsRefused) {
  for (const std::string open : {"[", "{\"a\":"}) {
    std::string deep;
    while (deep.size() < kMaxRecordSize - open.size()) deep += open;
    EXPECT_EQ(decoded_status(deep), RIPC_CORRUPT);
  }
}

TEST(ServiceRecord, QuotationMarksAndBackslashesAreDecodedAsTheyWereEncoded) {
  ServiceRecord record = sample();
  record.name = R"("\"a\)";
  record.addresses[1].locator = R"(\"\\"")";
  EXPECT_EQ(*decode_service_record(encoded(record), record.id), record);
}

TEST(ServiceRecord, OtherJsonAndOtherBytesAreRefused) {
  for (const char* text :
       {"", " ", "null", "1", "\"x\"", "[]", "{}", "{\"format\":1}", "{\"format\":1,\"check\":\"0\"}",
        "{\"format\":1,\"check\":\"0123456789abcdef\",\"record\":[]}", "\xff\xfe", "{}{}"})
    EXPECT_EQ(decoded_status(text), RIPC_CORRUPT) << text;
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    EXPECT_EQ(decoded_status(bytes), RIPC_CORRUPT);
  }
  EXPECT_EQ(decoded_status(std::string(kMaxRecordSize + 1, ' ')), RIPC_CORRUPT);
  EXPECT_EQ(decoded_status(encoded(sample()) + std::string(kMaxRecordSize, ' ')), RIPC_CORRUPT);
}

TEST(ServiceRecord, AnInvalidRecordIsNotEncoded) {
  const auto status_with = [](auto change) {
    ServiceRecord record = sample();
    change(record);
    return encode_service_record(record).status().code();
  };
  EXPECT_EQ(status_with([](ServiceRecord&) {}), RIPC_OK);
  EXPECT_EQ(status_with([](ServiceRecord& r) { r.id = 0; }), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(status_with([](ServiceRecord& r) { r.name = std::string(spi::kMaxNameSize + 1, 'n'); }),
            RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(status_with([](ServiceRecord& r) { r.name = "a/b"; }), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(status_with([](ServiceRecord& r) { r.name = std::string("a\0b", 3); }), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(status_with([](ServiceRecord& r) { r.name = "\xff"; }), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(status_with([](ServiceRecord& r) { r.name = "\xed\xa0\x80"; }), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(status_with([](ServiceRecord& r) { r.addresses[0].transport = ""; }), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(status_with([](ServiceRecord& r) { r.addresses[0].transport = "0123456789abcdef"; }),
            RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(status_with([](ServiceRecord& r) { r.addresses[0].locator = ""; }), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(status_with([](ServiceRecord& r) { r.addresses[0].locator = "\x80"; }), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(status_with([](ServiceRecord& r) { r.addresses[0].locator = "a\nb"; }), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(status_with([](ServiceRecord& r) { r.addresses[0].locator = "/run/other#1"; }), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(status_with([](ServiceRecord& r) { r.addresses[0].locator = std::string(spi::kMaxLocatorSize + 1, 'l'); }),
            RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(status_with([](ServiceRecord& r) {
              r.addresses.resize(spi::kMaxAddresses + 1, {"shm", "#1"});
            }),
            RIPC_INVALID_ARGUMENT);
}

TEST(ServiceRecord, ARecordThatWouldBeTooLargeIsALimit) {
  ServiceRecord record = sample();
  record.addresses.assign(17, {"socket", std::string(spi::kMaxLocatorSize, 'x')});
  const Status status = encode_service_record(record).status();
  EXPECT_EQ(status.code(), RIPC_LIMIT);
  EXPECT_TRUE(mentions(status, "65536")) << status.text();
  record.addresses.assign(15, {"socket", std::string(spi::kMaxLocatorSize, 'x')});
  EXPECT_TRUE(encode_service_record(record).ok());
  // An escaped quotation mark takes two bytes.
  record.addresses.assign(15, {"socket", std::string(spi::kMaxLocatorSize, '"')});
  EXPECT_EQ(encode_service_record(record).status().code(), RIPC_LIMIT);
}

}  // namespace
}  // namespace ripc::internal::resolver
