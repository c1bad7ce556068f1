// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.libripc.internal.Layout.Info;
import org.libripc.internal.NativeBlock;

/**
 * What is known of a living service. Immutable.
 *
 * @param id its ID
 * @param incarnation grows with each registration of the ID
 * @param pid of the process that holds it, as that process wrote it; 0 if unknown
 * @param name empty if it has none
 * @param transport of the address
 * @param address transport:locator; the address that a send tries first, or that of the path
 * @param reason why this path was chosen
 * @param others from {@link Ripc#findPath}: the other paths and what speaks against each
 * @param groups the groups that it is in
 */
public record ServiceInfo(
    ServiceId id,
    long incarnation,
    int pid,
    String name,
    String transport,
    String address,
    String reason,
    String others,
    List<ServiceId> groups) {

  static ServiceInfo read(ByteBuffer bytes) {
    List<ServiceId> groups = new ArrayList<>();
    int count = bytes.getInt(Info.GROUP_COUNT);
    for (int index = 0; index < count; ++index)
      groups.add(ServiceId.of(bytes.getLong(Info.GROUPS + 8 * index)));
    return new ServiceInfo(
        ServiceId.of(bytes.getLong(Info.ID)),
        bytes.getLong(Info.INCARNATION),
        bytes.getInt(Info.PID),
        NativeBlock.text(bytes, Info.NAME, Info.TRANSPORT - Info.NAME),
        NativeBlock.text(bytes, Info.TRANSPORT, Info.ADDRESS - Info.TRANSPORT),
        NativeBlock.text(bytes, Info.ADDRESS, Info.REASON - Info.ADDRESS),
        NativeBlock.text(bytes, Info.REASON, Info.OTHERS - Info.REASON),
        NativeBlock.text(bytes, Info.OTHERS, Info.GROUP_COUNT - Info.OTHERS),
        List.copyOf(groups));
  }
}
