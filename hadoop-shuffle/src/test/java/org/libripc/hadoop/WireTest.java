// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Random;
import javax.crypto.SecretKey;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Requests and answers: what is written is read, and what is not ours is refused. */
class WireTest {
  private static final SecretKey KEY = new SecretKeySpec(new byte[] {1, 2, 3}, "HmacSHA1");
  private static final SecretKey OTHER = new SecretKeySpec(new byte[] {1, 2, 4}, "HmacSHA1");
  private static final String JOB = "job_1700000000000_0001";
  private static final String MAP = "attempt_1700000000000_0001_m_000003_0";
  private static final Wire.Head HEAD = new Wire.Head(new byte[Wire.SESSION_BYTES], 7, 2);

  private static ByteBuffer begin() {
    return Wire.encode(new Wire.Begin(JOB, new byte[Wire.NONCE_BYTES]), KEY);
  }

  private static ByteBuffer sizes() {
    return Wire.encode(new Wire.Sizes(HEAD, List.of(MAP, MAP)), KEY);
  }

  private static ByteBuffer data() {
    return data(false);
  }

  private static ByteBuffer data(boolean isSealed) {
    List<Wire.Range> ranges = List.of(new Wire.Range(MAP, 5L << 32, 1 << 20));
    return Wire.encode(new Wire.Data(HEAD, isSealed, ranges), KEY);
  }

  @Test
  void readsWhatWasWritten() throws IOException {
    assertEquals(JOB, Wire.decodeBegin(begin()).job());
    Wire.Sizes sizes = Wire.decodeSizes(sizes());
    assertEquals(List.of(MAP, MAP), sizes.attempts());
    assertEquals(7, sizes.head().number());
    assertEquals(2, sizes.head().reduce());
    assertEquals(List.of(new Wire.Range(MAP, 5L << 32, 1 << 20)), Wire.decodeData(data()).ranges());
    assertFalse(Wire.decodeData(data(false)).isSealed());
    assertTrue(Wire.decodeData(data(true)).isSealed());
  }

  @Test
  void onlyTheKeySeals() throws IOException {
    for (ByteBuffer request : List.of(begin(), sizes(), data())) {
      assertTrue(Wire.isSealed(request, KEY));
      assertFalse(Wire.isSealed(request, OTHER));
      for (int at = 0; at < request.limit(); ++at) {
        ByteBuffer changed = ByteBuffer.wrap(request.array().clone());
        changed.put(at, (byte) (changed.get(at) ^ 1));
        assertFalse(Wire.isSealed(changed, KEY), "byte " + at);
      }
    }
  }

  @Test
  void anAnswerBelongsToItsRequest() throws IOException {
    ByteBuffer answer = Wire.encodeSizes(List.of(new Wire.Size(10, 20, 3), Wire.Size.NOT_THERE));
    ByteBuffer seal = ByteBuffer.wrap(Wire.sealAnswer(KEY, Wire.macOf(sizes()), answer));
    assertTrue(Wire.isAuthentic(KEY, Wire.macOf(sizes()), seal, answer));
    assertFalse(Wire.isAuthentic(KEY, Wire.macOf(data()), seal, answer));
    assertFalse(Wire.isAuthentic(OTHER, Wire.macOf(sizes()), seal, answer));
    List<Wire.Size> read = Wire.decodeSizes(answer, 2);
    assertEquals(new Wire.Size(10, 20, 3), read.get(0));
    assertFalse(read.get(1).isThere());
    assertThrows(IOException.class, () -> Wire.decodeSizes(answer, 1));
  }

  @Test
  void namesCannotLeaveTheJobsFolder() {
    for (String name : List.of("../../etc/passwd", "attempt_1_1_m_1_1/..", "attempt_1_1_r_1_1", ""))
      assertThrows(
          IOException.class,
          () -> Wire.decodeSizes(Wire.encode(new Wire.Sizes(HEAD, List.of(name)), KEY)));
    assertTrue(Wire.isOf(JOB, MAP));
    assertFalse(Wire.isOf("job_1700000000000_0002", MAP));
    assertFalse(Wire.isOf("job_1700000000000_000", MAP));
  }

  @Test
  void rangesHaveBounds() {
    for (Wire.Range range :
        List.of(
            new Wire.Range(MAP, -1, 1),
            new Wire.Range(MAP, 0, -1),
            new Wire.Range(MAP, 0, Keys.LARGEST_PIECE + 1)))
      assertThrows(
          IOException.class,
          () -> Wire.decodeData(Wire.encode(new Wire.Data(HEAD, false, List.of(range)), KEY)));
  }

  @Test
  void theServiceIsNamedAfterTheAddress() {
    assertEquals("hadoop-shuffle.node1.example:13562", Wire.serviceName("Node1.Example:13562"));
  }

  /** Gives both decoders requests and answers that are damaged at random. */
  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3, 4})
  void damagedOnesAreRefusedAndNothingWorse(long seed) {
    Random random = new Random(seed);
    ByteBuffer answer = Wire.encodeSizes(List.of(new Wire.Size(10, 20, 3), Wire.Size.NOT_THERE));
    List<ByteBuffer> good = List.of(begin(), sizes(), data(), answer);
    int read = 0;
    int answers = 0;
    for (int round = 0; round < 50_000; ++round) {
      byte[] bytes = good.get(random.nextInt(4)).array().clone();
      if (random.nextInt(4) == 0) bytes = new byte[random.nextInt(300)];
      for (int change = random.nextInt(8); change >= 0 && bytes.length > 0; --change)
        bytes[random.nextInt(bytes.length)] = (byte) random.nextInt(256);
      ByteBuffer request = ByteBuffer.wrap(bytes, 0, random.nextInt(bytes.length + 1));
      read += decodes(() -> Wire.decodeBegin(request));
      read += decodes(() -> Wire.decodeSizes(request));
      read += decodes(() -> Wire.decodeData(request));
      read += decodes(() -> Wire.decodeHead(request, Wire.DATA));
      read += decodes(() -> Wire.isSealed(request, KEY));
      answers += decodes(() -> Wire.decodeSizes(request, request.remaining() / 17));
      assertEquals(0, request.position(), "a decoder moves what it reads");
    }
    assertTrue(read > 0, "some damage does not matter to the decoders");
    assertTrue(answers > 0 && answers < 50_000, answers + " answers were read");
  }

  private interface Decoder {
    Object decode() throws IOException;
  }

  private static int decodes(Decoder decoder) {
    try {
      decoder.decode();
      return 1;
    } catch (IOException refused) {
      return 0;
    }
  }

  @Test
  void aMacIsAsLongAsItIs() throws IOException {
    byte[] mac = Wire.macOf(begin());
    assertEquals(Wire.MAC_BYTES, mac.length);
    assertArrayEquals(mac, Wire.macOf(begin()));
  }
}
