// SPDX-License-Identifier: Apache-2.0
package org.libripc;

/**
 * What a context has refused since it was opened, by all transports and resolvers. Immutable.
 *
 * @param handshakesRefused connections refused: another cluster key or none, no member, no
 *     encryption, a user who is not admitted, or too slow
 * @param linksRefused links refused, from members that the trust file does not allow to call the
 *     service
 * @param recordsRefused service records refused: not allowed by the trust file, with a wrong
 *     signature, from before a takeover, or copied to another node of ZooKeeper
 * @param packetsRefused packets refused: forged ones, on connections, links, multicast and
 *     ZooKeeper; repeated ones, on links, and on multicast after more than a second; and multicast
 *     packets whose time differs from ours by more than 30 s, or from users of this host who are
 *     not admitted
 * @param trustReloads changes of the trust file that have taken effect
 * @param trustFailures changes that cannot be used; {@link Ripc#checkTrust()} says why
 */
public record SecurityStatistics(
    long handshakesRefused,
    long linksRefused,
    long recordsRefused,
    long packetsRefused,
    long trustReloads,
    long trustFailures) {}
