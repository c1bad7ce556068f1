// SPDX-License-Identifier: Apache-2.0
// The multicast resolver's packets are those of spi/service_packet.hpp.
#pragma once

#include "spi/service_packet.hpp"

namespace ripc::internal::resolver {

using spi::check_packet_record;
using spi::decode_header;
using spi::decode_packet;
using spi::DecodeStatus;
using spi::kContextOffset;
using spi::kFullPacket;
using spi::kMaxPacket;
using spi::kMaxPacketAddresses;
using spi::kMaxPacketServices;
using spi::kPacketMagic;
using spi::kPacketVersion;
using spi::MulticastPacket;
using spi::PacketBuilder;
using spi::PacketHeader;
using spi::PacketService;
using spi::PacketType;
using spi::verify_packet;

}  // namespace ripc::internal::resolver
