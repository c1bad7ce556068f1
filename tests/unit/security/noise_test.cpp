// SPDX-License-Identifier: Apache-2.0
#include "security/noise.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ripc::internal::security {
namespace {

using Bytes = std::vector<std::byte>;
using Pattern = Noise::Pattern;

Bytes from_hex(std::string_view text) {
  Bytes bytes(text.size() / 2);
  EXPECT_EQ(sodium_hex2bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(), text.size(),
                           nullptr, nullptr, nullptr),
            0);
  return bytes;
}

std::optional<Secret> secret_of(std::string_view text) {
  if (text.empty()) return std::nullopt;
  Secret::Bytes bytes;
  std::memcpy(bytes.data(), from_hex(text).data(), bytes.size());
  return Secret(bytes);
}

Bytes sealed_with(const Secret& key, std::uint64_t number, const Bytes& text) {
  std::array<unsigned char, 12> nonce{};
  nonce[4] = static_cast<unsigned char>(number);
  Bytes out(text.size() + Noise::kTagSize);
  crypto_aead_chacha20poly1305_ietf_encrypt(reinterpret_cast<unsigned char*>(out.data()), nullptr,
                                            reinterpret_cast<const unsigned char*>(text.data()), text.size(), nullptr,
                                            0, nullptr, nonce.data(), key.data());
  return out;
}

struct Vector {
  Pattern pattern;
  std::string_view prologue, psk, initiator_static, initiator_ephemeral, responder_static, responder_ephemeral, hash;
  std::vector<std::pair<std::string_view, std::string_view>> messages;
};

// Test vectors of the implementations cacophony and snow.
const std::vector<Vector>& vectors() {
  static const std::vector<Vector> all = {
      {.pattern = Pattern::nn,
       .prologue = "4a6f686e2047616c74",
       .psk = "54686973206973206d7920417573747269616e20706572737065637469766521",
       .initiator_static = "",
       .initiator_ephemeral = "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a",
       .responder_static = "",
       .responder_ephemeral = "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b",
       .hash = "f4d03dc34495c95729ea6de9e1b59004b59733102488b3e24bc441e0be208eaf",
       .messages =
           {
               {"4c756477696720766f6e204d69736573",
                "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c794479b962b8aff8485742ac32f905ba45369e2465"
                "fb59e138a93d67a0d1266b6a54"},
               {"4d757272617920526f746862617264",
                "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843d6062704d5a9c422a8e834423f8c1feada7e8d"
                "0d910a1a2cd030fb584221e3"},
               {"462e20412e20486179656b", "e632c3763d7669067383433197a3baddf146e9e70ad4b4e9e59e0f"},
               {"4361726c204d656e676572", "64c6bee32ea91c8474bb4c21d7a700109ad45af77b29764ba5eb1e"},
               {"4a65616e2d426170746973746520536179",
                "e2fa0bed0603b62d3ccac2ecabbf3fe33f3e86514909b323361626266cb2471cc8"},
               {"457567656e2042f6686d20766f6e2042617765726b",
                "0c01dc9cec1fe4ddd692e8dd32188aa351088dc91183639a53b57aa4692b5ebdef8b8ca111"},
           }},
      {.pattern = Pattern::nn,
       .prologue = "4a6f686e2047616c74",
       .psk = "",
       .initiator_static = "",
       .initiator_ephemeral = "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a",
       .responder_static = "",
       .responder_ephemeral = "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b",
       .hash = "9223fec1b892ec9d0dc2fb3bbeb261f170d1ea679f9c44ccf34aa131b4f5d97e",
       .messages =
           {
               {"4c756477696720766f6e204d69736573",
                "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c79444c756477696720766f6e204d69736573"},
               {"4d757272617920526f746862617264",
                "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843a0ff96bdf86b579ef7dbf94e812a7470b903c2"
                "0a85a87e3a1fe863264ae547"},
               {"462e20412e20486179656b", "eb1a3e3d80c1792b1bb9cb0e1382f8d8322bfb1ca7c4c8517bb686"},
               {"4361726c204d656e676572", "c781b198d2a974eb1da2c7d518c000cf6396de87ca540963c03713"},
               {"4a65616e2d426170746973746520536179",
                "c77048eb6919fdfe8fe45842bfc5b8d1ff50d1e20c717453ccdfe6176d805b996d"},
               {"457567656e2042f6686d20766f6e2042617765726b",
                "61834d7069dcfb7a1adf8d5ac910f83fa04c73a67789895c6f5f995c5db2ce88e49b124178"},
           }},
      {.pattern = Pattern::xx,
       .prologue = "4a6f686e2047616c74",
       .psk = "",
       .initiator_static = "e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1",
       .initiator_ephemeral = "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a",
       .responder_static = "4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893",
       .responder_ephemeral = "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b",
       .hash = "c8e5f64e846193be2a834104c2a009868d6c9f3bd3c186299888b488b2f1f58e",
       .messages =
           {
               {"4c756477696720766f6e204d69736573",
                "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c79444c756477696720766f6e204d69736573"},
               {"4d757272617920526f746862617264",
                "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f14480884381cbad1f276e038c48378ffce2b65285e08d6b"
                "68aaa3629a5a8639392490e5b9bd5269c2f1e4f488ed8831161f19b7815528f8982ffe09be9b5c412f8a0db50f8814c7194e83"
                "f23dbd8d162c9326ad"},
               {"462e20412e20486179656b",
                "c7195ffacac1307ff99046f219750fc47693e23c3cb08b89c2af808b444850a80ae475b9df0f169ae80a89be0865b57f58c9fe"
                "a0d4ec82a286427402f113e4b6ae769a1d95941d49b25030"},
               {"4361726c204d656e676572", "96763ed773f8e47bb3712f0e29b3060ffc956ffc146cee53d5e1df"},
               {"4a65616e2d426170746973746520536179",
                "3e40f15f6f3a46ae446b253bf8b1d9ffb6ed9b174d272328ff91a7e2e5c79c07f5"},
               {"457567656e2042f6686d20766f6e2042617765726b",
                "eb3f3515110702e047a6c9da4478b6ead94873c11c0f2d710ddb3f09fce024b3a58502ae3f"},
           }},
      // Neither has a vector of XXpsk0. This one has cacophony's keys; snow 0.9.6, noiseprotocol 0.3.1 and dissononce
      // 0.34.3 (of crates.io and PyPI), which share no code, give the same bytes.
      {.pattern = Pattern::xx,
       .prologue = "4a6f686e2047616c74",
       .psk = "54686973206973206d7920417573747269616e20706572737065637469766521",
       .initiator_static = "e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1",
       .initiator_ephemeral = "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a",
       .responder_static = "4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893",
       .responder_ephemeral = "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b",
       .hash = "0793e6b2d2fed61d803e0d9de8a4b961436e896194246a784d30d1bb1fd42e54",
       .messages =
           {
               {"4c756477696720766f6e204d69736573",
                "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c794444e557af4bb1c735a4948bdd9aedbb4b3db9a8"
                "aed79bc6517b05eca117a755c3"},
               {"4d757272617920526f746862617264",
                "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f14480884309813c929a2ee793a6909502f23492a90b088e"
                "4acc71ae6ca49464e67d97fdf404b94bc46aad47491994c66e9a8832f1701cdc1f47fc2ba565695638f005ca2e7b9a569a4c24"
                "1a57879a0779d8bdbd"},
               {"462e20412e20486179656b",
                "591674f2df5cc5e0a9b3ddea86bafb1219b36345c12aa4bd0526a9f727fe2e2a14efe7e0a7b7710d042006afd97e7cf58a3efe"
                "9041dba7cf07099b7c2345135e8d51254f6f742730eb7755"},
               {"4361726c204d656e676572", "65bc9bce988c8c9becae660cd4fdd43f1c0dfaa40a2ac2322a09ae"},
               {"4a65616e2d426170746973746520536179",
                "4cc7db3b57b01e80a8f684fa6eb8d043ae32f38aa598cf8bbe474aa9ffc4dfce9b"},
               {"457567656e2042f6686d20766f6e2042617765726b",
                "2ebc31fbd26efafc391423fd69aa09159c5c15d9327ebae0e4afaffac55baa42fd9b742f91"},
           }},
      {.pattern = Pattern::xx,
       .prologue = "5468657265206973206e6f20726967687420616e642077726f6e672e2054686572652773206f6e6c792066756e20616e642"
                   "0626f72696e672e",
       .psk = "",
       .initiator_static = "7dec208517a3b81a2861d7a71266d5d6dc944c5a8816634a86fe63198a0148ee",
       .initiator_ephemeral = "a32daf21e93c0131495ce1d903181fde81cc46937daaeb990bae7c992709421e",
       .responder_static = "4d0aed5098e3b4ef20357e9f686ce66204c792b358da2e475017d6c485304881",
       .responder_ephemeral = "4eece0f195d026db035ff987597c429d3ad3bcc2944df37d649528951b2a27c5",
       .hash = "",
       .messages =
           {
               {"d03c489139e645d0711a3c9e810d776b46a84912463fafa87b884eebf242dc34",
                "f9fa868ba97ab8a2686deccfaad5a484ee10a5bb85e3d1dce015a84797f92818d03c489139e645d0711a3c9e810d776b46a849"
                "12463fafa87b884eebf242dc34"},
               {"d8190a92f7dc0c93dbea9118ba8055751fb7c6590c416ffbd419964132b99a85",
                "8c4e6fdb7d09d501a86f7eca5c234522751706ed409182c05cdf5f827d4dae47b81c6c5f43b025692c24391eefee725c17d8cb"
                "0fbe3e4abb8aedf42c4fd2592d4ea48ac08989d6ae8b4adae08b2c34087c808c7aa55a63c02b0fab9e930612336bd43eaea04d"
                "3c670a0a146691aa9cc9d357872320dc735dbc48580cffb553db"},
               {"77891b19dcb92ef7c055b672c4a5aa7fdf1c84146b8b303459022729473ce254",
                "933ca6b5ed60df3df66121f0ab49a09e49efa45c613a86a3cecbf4c535cef2f83f72b42837b18e3572f2fdc2b74c331e2368a5"
                "45cef54bdca081678ab0e9dd5348122459e0c034c851984d88ce610963d43cde6cfe73a67fbd5a63e8bfca96d0"},
               {"d7efdf988072881941db045a42882433817555128fbf5663e56081712ec7d212",
                "54ef0ff0629e1aaa7685a2806ab111cba76b52331f2642276736f415868eacb69ab2577f3bda0cbf72f879685f6ed25f"},
               {"dd7bf01a588bafb52c6cfba952e5d8fe35cc2b3f92b4730ae2474615157345ce",
                "356be70f110306d5c699bb834bb9d58d909e325924dfbec972e406e6f294dc63e1daebefe8a62a334facc8048ab4ad66"},
           }},
  };
  return all;
}

TEST(Noise, GivesTheBytesOfTheTestVectors) {
  for (const Vector& vector : vectors()) {
    SCOPED_TRACE(std::string(vector.pattern == Pattern::nn ? "NN " : "XX ") + std::string(vector.psk));
    const Bytes prologue = from_hex(vector.prologue);
    Noise initiator({.pattern = vector.pattern,
                     .initiator = true,
                     .prologue = prologue,
                     .psk = secret_of(vector.psk),
                     .own = secret_of(vector.initiator_static),
                     .ephemeral = secret_of(vector.initiator_ephemeral)});
    Noise responder({.pattern = vector.pattern,
                     .initiator = false,
                     .prologue = prologue,
                     .psk = secret_of(vector.psk),
                     .own = secret_of(vector.responder_static),
                     .ephemeral = secret_of(vector.responder_ephemeral)});
    Bytes message, payload;
    std::size_t index = 0;
    for (; !initiator.complete(); ++index) {
      Noise& sender = index % 2 == 0 ? initiator : responder;
      Noise& receiver = index % 2 == 0 ? responder : initiator;
      const auto& [text, expected] = vector.messages.at(index);
      ASSERT_TRUE(sender.write(from_hex(text), message));
      EXPECT_EQ(message, from_hex(expected));
      ASSERT_TRUE(receiver.read(message, payload));
      EXPECT_EQ(payload, from_hex(text));
    }
    ASSERT_TRUE(responder.complete());
    if (!vector.hash.empty()) {
      EXPECT_EQ(Bytes(initiator.hash().begin(), initiator.hash().end()), from_hex(vector.hash));
    }
    const Noise::Secrets one = initiator.secrets();
    const Noise::Secrets other = responder.secrets();
    EXPECT_EQ(one.to_responder.bytes(), other.to_responder.bytes());
    EXPECT_EQ(one.to_initiator.bytes(), other.to_initiator.bytes());
    EXPECT_EQ(one.session.bytes(), other.session.bytes());
    for (std::array<std::uint64_t, 2> numbers{}; index < vector.messages.size(); ++index) {
      const auto& [text, expected] = vector.messages[index];
      const Secret& key = index % 2 == 0 ? one.to_responder : one.to_initiator;
      EXPECT_EQ(sealed_with(key, numbers.at(index % 2)++, from_hex(text)), from_hex(expected));
    }
  }
}

// Runs a handshake with one bit of one message flipped. True if it fails at the end that reads the message, or later.
bool fails(Noise& initiator, Noise& responder, std::size_t turned = SIZE_MAX, std::size_t byte = 0) {
  Bytes message, payload;
  for (std::size_t index = 0; !initiator.complete() || !responder.complete(); ++index) {
    if (!(index % 2 == 0 ? initiator : responder).write({}, message)) return true;
    if (index == turned) message.at(byte % message.size()) ^= std::byte{0x10};
    if (!(index % 2 == 0 ? responder : initiator).read(message, payload)) return true;
  }
  return initiator.secrets().session.bytes() != responder.secrets().session.bytes();
}

TEST(Noise, FailsWithAnotherKeyPrologueOrPattern) {
  const Secret psk = Secret::random();
  const Secret own = Secret::random();
  const Bytes prologue(3, std::byte{1});
  const Bytes another(3, std::byte{2});
  const auto make = [&](bool initiator, Pattern pattern, const Secret& key, const Bytes& text) {
    return Noise({.pattern = pattern, .initiator = initiator, .prologue = text, .psk = key, .own = own});
  };
  for (const Pattern pattern : {Pattern::nn, Pattern::xx}) {
    Noise initiator = make(true, pattern, psk, prologue);
    Noise same = make(false, pattern, psk, prologue);
    EXPECT_FALSE(fails(initiator, same));
    Noise initiator2 = make(true, pattern, psk, prologue);
    Noise other_key = make(false, pattern, Secret::random(), prologue);
    EXPECT_TRUE(fails(initiator2, other_key));
    Noise initiator3 = make(true, pattern, psk, prologue);
    Noise other_prologue = make(false, pattern, psk, another);
    EXPECT_TRUE(fails(initiator3, other_prologue));
  }
  Noise initiator = make(true, Pattern::nn, psk, prologue);
  Noise other_pattern = make(false, Pattern::xx, psk, prologue);
  EXPECT_TRUE(fails(initiator, other_pattern));
}

TEST(Noise, NoBitOfAMessageCanBeTurned) {
  const Secret psk = Secret::random();
  for (std::size_t message = 0; message < 3; ++message) {
    for (std::size_t byte = 0; byte < 112; ++byte) {
      Noise initiator({.pattern = Pattern::xx, .initiator = true, .psk = psk, .own = Secret::random()});
      Noise responder({.pattern = Pattern::xx, .initiator = false, .psk = psk, .own = Secret::random()});
      EXPECT_TRUE(fails(initiator, responder, message, byte)) << message << ", byte " << byte;
    }
  }
}

TEST(Noise, TellsTheKeyOfTheOtherEnd) {
  const Secret one = Secret::random();
  const Secret other = Secret::random();
  Noise initiator({.pattern = Pattern::xx, .initiator = true, .own = one});
  Noise responder({.pattern = Pattern::xx, .initiator = false, .own = other});
  ASSERT_FALSE(fails(initiator, responder));
  EXPECT_EQ(initiator.peer(), Noise::public_of(other));
  EXPECT_EQ(responder.peer(), Noise::public_of(one));
}

TEST(Noise, RefusesAKeyThatGivesAResultWhichEveryoneKnows) {
  Noise responder({.pattern = Pattern::nn, .initiator = false});
  Bytes message(Noise::kPublicSize, std::byte{0});
  Bytes payload;
  ASSERT_TRUE(responder.read(message, payload));
  EXPECT_FALSE(responder.write({}, message));
}

TEST(Noise, AReplayedFirstMessageGivesOtherSecrets) {
  const Secret psk = Secret::random();
  Noise initiator({.pattern = Pattern::nn, .initiator = true, .psk = psk});
  Noise responder({.pattern = Pattern::nn, .initiator = false, .psk = psk});
  Noise again({.pattern = Pattern::nn, .initiator = false, .psk = psk});
  Bytes first, answer, payload;
  ASSERT_TRUE(initiator.write({}, first));
  ASSERT_TRUE(responder.read(first, payload) && responder.write({}, answer));
  ASSERT_TRUE(again.read(first, payload) && again.write({}, answer));
  EXPECT_NE(again.secrets().to_responder.bytes(), responder.secrets().to_responder.bytes());
}

}  // namespace
}  // namespace ripc::internal::security
