// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.libripc.Outgoing;
import org.libripc.RegisteredBuffer;
import org.libripc.ReturnBuffer;
import org.libripc.ViewKind;
import org.libripc.rpc.CallResult;

/** What a reducer gets from a NodeManager. */
class ServerTest extends ServerFixture {
  @Test
  void smallOnesComeTogether() throws Exception {
    int[] which = new int[20];
    for (int map = 0; map < which.length; ++map) {
      which[map] = map;
      write(map, 20, 40);
    }
    assertFalse(fetch(which));
    checkCame(which);
    // The server counts an answer after it has sent it.
    await(() -> value(metrics.dataRequests) > 0);
    assertEquals(1, value(metrics.dataRequests), "one piece holds them all");
    assertEquals(1, value(metrics.sizeRequests));
  }

  @Test
  void aLargeOneComesInPieces() throws Exception {
    maps.conf.setInt(Keys.PIECE_BYTES, 64 << 10);
    shuffle = new RemoteShuffle(maps.conf, JOB, KEY);
    write(0, 2000, 1000);
    write(1, 0, 0);
    write(2, 3000, 100);
    assertFalse(fetch(0, 1, 2));
    checkCame(0, 1, 2);
    long bytes = taken.came.values().stream().mapToLong(each -> each.length).sum();
    await(() -> value(metrics.bytes) >= bytes);
    assertEquals(bytes, value(metrics.bytes));
    assertTrue(value(metrics.dataRequests) >= bytes / (64 << 10));
  }

  @Test
  void piecesComeAheadOfTheReader() throws Exception {
    maps.conf.setInt(Keys.PIECES, 3);
    shuffle = new RemoteShuffle(maps.conf, JOB, KEY);
    write(0, 1200, 10_000); // six pieces of 1 MiB
    taken.beforeReading =
        () -> {
          await(() -> value(metrics.dataRequests) >= 3);
          assertEquals(3, value(metrics.dataRequests));
        };
    fetch(0);
    checkCame(0);
  }

  @ParameterizedTest
  @ValueSource(ints = {1 << 20, Keys.LARGEST_PIECE})
  void aPieceIsWrittenIntoMemoryThatTheReducerLeased(int length) throws Exception {
    write(0, 1200, 10_000);
    RemoteHost host = shuffle.host(name);
    Wire.Range range = new Wire.Range(MapFiles.attempt(0).toString(), 1000, length);
    ByteBuffer request = Wire.encode(new Wire.Data(host.head(REDUCE), false, List.of(range)), KEY);
    try (RegisteredBuffer memory = shuffle.ripc().lease(length)) {
      Outgoing room = new Outgoing().attach(new ReturnBuffer(memory));
      try (CallResult result = RemoteHost.await(host.call(Wire.DATA, request, room))) {
        assertEquals(Wire.OK, result.code());
        assertEquals(ViewKind.RETURNED, result.kind(0));
      }
      assertEquals(ByteBuffer.wrap(part(0), 1000, length), memory.buffer());
    }
  }

  @Test
  void nothingIsLeftOfAJobThatEndsWhileItIsAnswered() throws Exception {
    write(0, 20, 40);
    AtomicInteger lookups = new AtomicInteger();
    AtomicInteger files = new AtomicInteger();
    // The reader that has the bytes read finds the output again, and the job ends at that moment.
    beforeFinding =
        () -> {
          if (lookups.incrementAndGet() == 2) outputs.endJob(JOB);
        };
    whileFinding =
        () -> {
          if (files.incrementAndGet() != 4) return; // the data and the index, for the second time
          keys.remove(JOB);
          server.endJob(JOB);
        };
    RemoteHost host = shuffle.host(name);
    Wire.Range range = new Wire.Range(MapFiles.attempt(0).toString(), 0, 10);
    ByteBuffer request = Wire.encode(new Wire.Data(host.head(REDUCE), false, List.of(range)), KEY);
    try (RegisteredBuffer memory = shuffle.ripc().lease(range.length())) {
      Outgoing room = new Outgoing().attach(new ReturnBuffer(memory));
      try (CallResult result = RemoteHost.await(host.call(Wire.DATA, request, room))) {
        assertEquals(Wire.OK, result.code());
      }
    }
    assertEquals(4, files.get());
    await(() -> outputs.count() == 0 && outputs.openFiles() == 0);
  }

  @Test
  void theBytesAreUnderTheMacWhereTheReducerWantsThat() throws Exception {
    maps.conf.set(Keys.DATA_MAC, "always");
    shuffle.close();
    shuffle = new RemoteShuffle(maps.conf, JOB, KEY);
    for (int map = 0; map < 3; ++map) write(map, 1200, 2000);
    fetch(0, 1, 2);
    checkCame(0, 1, 2);
    assertTrue(taken.failed.isEmpty());
  }

  @Test
  void withoutRoomTheRestWaits() throws Exception {
    for (int map = 0; map < 5; ++map) write(map, 20, 40);
    taken.room = 3;
    assertTrue(fetch(0, 1, 2, 3, 4));
    checkCame(0, 1, 2);
  }

  @Test
  void missingOutputsAreLeftOut() throws Exception {
    write(0, 20, 40);
    write(2, 20, 40);
    assertFalse(fetch(0, 1, 2));
    checkCame(0, 2);
    assertEquals(Map.of(MapFiles.attempt(1), Fallback.NOT_THERE), taken.failed);
  }

  @Test
  void aDamagedOneHurtsNoOther() throws Exception {
    for (int map = 0; map < 4; ++map) write(map, 2000, 400);
    taken.damaged = MapFiles.attempt(1);
    assertFalse(fetch(0, 1, 2, 3));
    checkCame(0, 2, 3);
    assertEquals(Map.of(MapFiles.attempt(1), Fallback.CHECKSUM), taken.failed);
    assertEquals(1, taken.aborted);
  }

  @Test
  void aFullDiskOfTheReducerIsNoDamage() throws Exception {
    for (int map = 0; map < 3; ++map) write(map, 20, 40);
    taken.damaged = MapFiles.attempt(1);
    taken.problem = new ReducerFailure(new IOException("No space left on device"));
    assertSame(taken.problem, assertThrows(ReducerFailure.class, () -> fetch(0, 1, 2)));
    checkCame(0);
    assertEquals(Map.of(), taken.failed);
    assertEquals(2, taken.aborted);
  }

  @Test
  void aFileThatBecomesShorterIsNamed() throws Exception {
    for (int map = 0; map < 3; ++map) write(map, 20, 40);
    shuffle.host(name).sizes(REDUCE, List.of(MapFiles.attempt(1).toString()));
    Files.write(maps.data(1), new byte[10]);
    ShuffleFailure failure = assertThrows(ShuffleFailure.class, () -> fetch(0, 1, 2));
    assertEquals(Fallback.NOT_THERE, failure.why());
    assertEquals(MapFiles.attempt(1), failure.output());
    assertEquals(3, taken.aborted, "their room is given back");
  }

  @Test
  void unknownOutputsAreReadByTheirDirectorysReaders() throws Exception {
    indexBytes = 1; // only the last one is known
    serveAgain(256, 1 << 24);
    for (int map = 0; map < 2; ++map) write(map, 20, 40);
    fetch(0, 1);
    checkCame(0, 1);
    String reader = "ripc-shuffle-reader-";
    assertEquals(Set.of(reader + DirectoryReaders.UNKNOWN, reader + 0), readers);
  }
}
