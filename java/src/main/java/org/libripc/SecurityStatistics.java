// SPDX-License-Identifier: Apache-2.0
package org.libripc;

/**
 * What a context has refused since it was opened, by all transports and resolvers. Immutable.
 *
 * @param handshakesRefused connections: another cluster key or none, no member, no encryption, a
 *     user who is not admitted, too slow
 * @param linksRefused links of members that the trust file does not let call the service
 * @param recordsRefused records of services that the trust file does not allow, with a wrong
 *     signature, or from before a takeover
 * @param packetsRefused what was forged, of connections, links, multicast and ZooKeeper; what came
 *     again, of links, and of multicast after more than a second; and multicast packets whose time
 *     is more than 30 s from ours, or of users of this host who are not admitted
 * @param trustReloads changes of the trust file that are in force
 * @param trustFailures changes that cannot be used; {@link Ripc#checkTrust()} says why
 */
public record SecurityStatistics(
    long handshakesRefused,
    long linksRefused,
    long recordsRefused,
    long packetsRefused,
    long trustReloads,
    long trustFailures) {}
