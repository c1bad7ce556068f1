// SPDX-License-Identifier: Apache-2.0
package org.libripc;

/**
 * Counters of a service since it was registered. Immutable.
 *
 * @param messagesSent messages sent
 * @param messagesReceived messages received
 * @param shortBytesSent bytes of short items sent
 * @param shortBytesReceived bytes of short items received
 * @param longItemsSent long items sent
 * @param longItemsReceived long items received
 * @param longBytesReceived bytes of long items received
 * @param itemsLent items received as lent views
 * @param itemsReturned items written into return buffers of peers
 * @param itemsDiscarded items that could not be delivered
 * @param again sends that found no room
 * @param wakesSent system calls made to wake a sleeping receiver
 * @param sleeps times receive went to sleep
 * @param packetsLost gaps seen
 * @param packetsCorrupt packets refused by the decoder
 * @param notificationsSent notifications sent
 * @param notificationsRun callbacks run
 * @param notificationsUnknown notifications that named no callback
 * @param payloadCopies copies of payload made by libripc's native part
 * @param resolutions times the resolver was asked
 * @param senders queues open now
 * @param packetsLate dropped because later ones of the same sender had come before
 * @param packetsDuplicate dropped because they had come before
 * @param groupPackets sent to several members of a group at once
 */
public record ServiceStatistics(
    long messagesSent,
    long messagesReceived,
    long shortBytesSent,
    long shortBytesReceived,
    long longItemsSent,
    long longItemsReceived,
    long longBytesReceived,
    long itemsLent,
    long itemsReturned,
    long itemsDiscarded,
    long again,
    long wakesSent,
    long sleeps,
    long packetsLost,
    long packetsCorrupt,
    long notificationsSent,
    long notificationsRun,
    long notificationsUnknown,
    long payloadCopies,
    long resolutions,
    long senders,
    long packetsLate,
    long packetsDuplicate,
    long groupPackets) {}
