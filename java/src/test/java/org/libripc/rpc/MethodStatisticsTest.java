// SPDX-License-Identifier: Apache-2.0
package org.libripc.rpc;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.libripc.Status;
import org.libripc.internal.Layout;

/** Counters are read from where the native library writes them. */
class MethodStatisticsTest {
  @Test
  void eachCounterIsReadFromItsPlace() {
    ByteBuffer from =
        ByteBuffer.allocate(Layout.MethodStatistics.BYTES).order(ByteOrder.nativeOrder());
    from.putInt(Layout.MethodStatistics.METHOD, 1);
    from.putLong(Layout.MethodStatistics.CALLS, 2);
    from.putLong(Layout.MethodStatistics.ANSWERED, 3);
    from.putLong(Layout.MethodStatistics.DID_NOT_RUN, 4);
    from.putLong(Layout.MethodStatistics.MAY_HAVE_RUN, 5);
    from.putLong(Layout.MethodStatistics.REPEATS, 6);
    from.putLong(Layout.MethodStatistics.STATUSES + 8 * Status.OK.code(), 7);
    from.putLong(Layout.MethodStatistics.STATUSES + 8 * Status.LIMIT.code(), 8);
    from.putLong(Layout.MethodStatistics.REQUESTS_RUN, 9);
    from.putLong(Layout.MethodStatistics.REQUESTS_REFUSED, 10);
    from.putLong(Layout.MethodStatistics.REQUESTS_EXPIRED, 11);
    put(from, Layout.MethodStatistics.CALL_TIME, 20);
    put(from, Layout.MethodStatistics.REQUEST_TIME, 30);
    assertEquals(
        new MethodStatistics(
            1,
            2,
            3,
            4,
            5,
            6,
            Map.of(Status.OK, 7L, Status.LIMIT, 8L),
            new Latency(20, 21, 22, 23, 24, 25, 26, 27, histogram(28)),
            9,
            10,
            11,
            new Latency(30, 31, 32, 33, 34, 35, 36, 37, histogram(38))),
        MethodStatistics.read(from));
  }

  /** A latency whose figures are this number and the next ones. */
  private static void put(ByteBuffer to, int at, long first) {
    to.putLong(at + Layout.Latency.COUNT, first);
    to.putLong(at + Layout.Latency.MINIMUM, first + 1);
    to.putLong(at + Layout.Latency.MEAN, first + 2);
    to.putLong(at + Layout.Latency.P50, first + 3);
    to.putLong(at + Layout.Latency.P90, first + 4);
    to.putLong(at + Layout.Latency.P99, first + 5);
    to.putLong(at + Layout.Latency.P999, first + 6);
    to.putLong(at + Layout.Latency.MAXIMUM, first + 7);
    for (int index = 0; index < Layout.Latency.RANGES; ++index)
      to.putLong(at + Layout.Latency.HISTOGRAM + 8 * index, first + 8 + index);
  }

  private static List<Long> histogram(long first) {
    return LongStream.range(first, first + Layout.Latency.RANGES).boxed().toList();
  }
}
