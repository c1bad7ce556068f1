// SPDX-License-Identifier: Apache-2.0
package org.libripc.rpc;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.stream.IntStream;
import org.libripc.internal.Layout;

/**
 * Times in nanoseconds, at most 1.6 % too large. A longer time than 18 minutes counts as 18
 * minutes. All are 0 if the count is 0. Immutable.
 *
 * @param count how many times were measured
 * @param minimum the shortest
 * @param mean their mean
 * @param p50 the time that half of them do not exceed
 * @param p90 the time that 90 % do not exceed
 * @param p99 the time that 99 % do not exceed
 * @param p999 the time that 99.9 % do not exceed
 * @param maximum the longest
 * @param histogram how many times were in each of 40 ranges, exactly: from 2^index to below
 *     2^(index + 1); 0 counts in the first. To get the histogram of several methods or endpoints,
 *     add theirs
 */
public record Latency(
    long count,
    long minimum,
    long mean,
    long p50,
    long p90,
    long p99,
    long p999,
    long maximum,
    List<Long> histogram) {
  static Latency read(ByteBuffer from, int at) {
    return new Latency(
        from.getLong(at + Layout.Latency.COUNT),
        from.getLong(at + Layout.Latency.MINIMUM),
        from.getLong(at + Layout.Latency.MEAN),
        from.getLong(at + Layout.Latency.P50),
        from.getLong(at + Layout.Latency.P90),
        from.getLong(at + Layout.Latency.P99),
        from.getLong(at + Layout.Latency.P999),
        from.getLong(at + Layout.Latency.MAXIMUM),
        IntStream.range(0, Layout.Latency.RANGES)
            .mapToObj(index -> from.getLong(at + Layout.Latency.HISTOGRAM + 8 * index))
            .toList());
  }
}
