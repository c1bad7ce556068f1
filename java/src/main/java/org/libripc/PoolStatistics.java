// SPDX-License-Identifier: Apache-2.0
package org.libripc;

/**
 * The context's pool of registered memory, as libripc sees it. Immutable.
 *
 * @param limit the most bytes that it may take
 * @param reserved bytes taken from the system
 * @param leased bytes leased, to {@link RegisteredBuffer}s in use and to those kept for the next
 *     lease
 * @param leases leases since the start
 * @param reuses of these, leases from memory that was there
 * @param releases leases ended
 * @param deferredReleases of these, leases that were kept for a ticket
 * @param failures leases that found no memory
 * @param arenas pieces of memory
 * @param hugePageArenas of these, with huge pages
 * @param registrations registrations of foreign memory
 * @param registrationHits of these, registrations of memory that was known already
 * @param inUse bytes of leases that a {@link RegisteredBuffer} or a message under way uses now: 0
 *     when everything was given back, even if some is kept for later
 */
public record PoolStatistics(
    long limit,
    long reserved,
    long leased,
    long leases,
    long reuses,
    long releases,
    long deferredReleases,
    long failures,
    long arenas,
    long hugePageArenas,
    long registrations,
    long registrationHits,
    long inUse) {}
