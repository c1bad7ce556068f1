// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Function;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.SecretKey;

/**
 * Requests and answers of the shuffle, and their authentication. All numbers are big-endian; a text
 * has its length in 2 bytes before it. A request is: version, method, the fields of the method, and
 * 32 bytes of MAC.
 */
final class Wire {
  static final int VERSION = 2;

  static final int BEGIN = 1;
  static final int SIZES = 2;
  static final int DATA = 3;

  // The codes of answers. REFUSED and NO_SESSION have no items.
  static final int OK = 0;

  /** The token is wrong or unknown, or the request is malformed. */
  static final int REFUSED = 1;

  /** There is no such session, or its request has come before: the reducer must begin again. */
  static final int NO_SESSION = 2;

  /**
   * An output is not there, or cannot be read. The answer has the index of its range, in 4 bytes.
   */
  static final int NOT_THERE = 3;

  static final int MAC_BYTES = 32;
  static final int SESSION_BYTES = 16;
  static final int NONCE_BYTES = 16;
  static final int MOST_OUTPUTS = 256;
  private static final int LONGEST_TEXT = 200;
  static final int LONGEST_REQUEST = MOST_OUTPUTS * (LONGEST_TEXT + 16);
  private static final Pattern JOB = Pattern.compile("job_\\d{1,19}_\\d{1,9}");
  // An attempt becomes a part of a path.
  private static final Pattern ATTEMPT =
      Pattern.compile("attempt_(\\d{1,19}_\\d{1,9})_m_\\d{1,9}_\\d{1,9}");

  /** A request for a session. */
  record Begin(String job, byte[] nonce) {}

  /** What the requests of a session begin with. */
  record Head(byte[] session, long number, int reduce) {}

  /** A request for the sizes of outputs. */
  record Sizes(Head head, List<String> attempts) {}

  /** A piece of an output: {@code offset} counts from the beginning of the part. */
  record Range(String attempt, long offset, int length) {}

  /** A request for bytes. {@code isSealed}: the answer's MAC covers the bytes, too. */
  record Data(Head head, boolean isSealed, List<Range> ranges) {}

  /** One answer to {@link Sizes}. {@code raw} is -1 if the output is not there. */
  record Size(long raw, long part, int directory) {
    static final Size NOT_THERE = new Size(-1, 0, 0);

    boolean isThere() {
      return raw >= 0;
    }
  }

  private Wire() {}

  /**
   * The name of a NodeManager's service, made from the address of its HTTP shuffle, which reducers
   * know.
   */
  static String serviceName(String hostAndPort) {
    return "hadoop-shuffle." + hostAndPort.toLowerCase(Locale.ROOT);
  }

  // ---- Requests ----

  static ByteBuffer encode(Begin begin, SecretKey key) {
    ByteBuffer to = request(BEGIN, 2 + begin.job.length() + NONCE_BYTES);
    putText(to, begin.job);
    to.put(begin.nonce);
    return seal(to, key);
  }

  static ByteBuffer encode(Sizes sizes, SecretKey key) {
    int length = sizes.attempts.stream().mapToInt(each -> 2 + each.length()).sum();
    ByteBuffer to = request(SIZES, SESSION_BYTES + 14 + length);
    putHead(to, sizes.head, sizes.attempts.size());
    sizes.attempts.forEach(each -> putText(to, each));
    return seal(to, key);
  }

  static ByteBuffer encode(Data data, SecretKey key) {
    int length = data.ranges.stream().mapToInt(each -> 14 + each.attempt.length()).sum();
    ByteBuffer to = request(DATA, SESSION_BYTES + 15 + length);
    putHead(to, data.head, data.ranges.size());
    to.put((byte) (data.isSealed ? 1 : 0));
    for (Range range : data.ranges) {
      putText(to, range.attempt);
      to.putLong(range.offset).putInt(range.length);
    }
    return seal(to, key);
  }

  private static ByteBuffer request(int method, int bytes) {
    return ByteBuffer.allocate(2 + bytes + MAC_BYTES).put((byte) VERSION).put((byte) method);
  }

  private static void putHead(ByteBuffer to, Head head, int count) {
    to.put(head.session).putLong(head.number).putInt(head.reduce).putShort((short) count);
  }

  private static void putText(ByteBuffer to, String text) {
    to.putShort((short) text.length()).put(text.getBytes(StandardCharsets.US_ASCII));
  }

  private static ByteBuffer seal(ByteBuffer request, SecretKey key) {
    ByteBuffer body = request.duplicate().flip();
    return request.put(mac(key, body)).flip();
  }

  /** The MAC at the end of a request. */
  static byte[] macOf(ByteBuffer request) throws IOException {
    if (request.remaining() < 2 + MAC_BYTES) throw new IOException("a request is too short");
    byte[] mac = new byte[MAC_BYTES];
    request.get(request.limit() - MAC_BYTES, mac);
    return mac;
  }

  /** Whether a request was made by a holder of the key. */
  static boolean isSealed(ByteBuffer request, SecretKey key) throws IOException {
    byte[] sent = macOf(request);
    ByteBuffer body = request.duplicate().limit(request.limit() - MAC_BYTES);
    return MessageDigest.isEqual(sent, mac(key, body));
  }

  static Begin decodeBegin(ByteBuffer request) throws IOException {
    return decode(
        request,
        BEGIN,
        from -> {
          String job = text(from, JOB);
          byte[] nonce = new byte[NONCE_BYTES];
          from.get(nonce);
          return new Begin(job, nonce);
        });
  }

  /** Decodes only the head, before the key is known. */
  static Head decodeHead(ByteBuffer request, int method) throws IOException {
    try {
      return head(begin(request, method));
    } catch (BufferUnderflowException shorter) {
      throw new IOException("a request is too short");
    }
  }

  static Sizes decodeSizes(ByteBuffer request) throws IOException {
    return decode(
        request,
        SIZES,
        from -> {
          Head head = head(from);
          int count = count(from);
          List<String> attempts = new ArrayList<>(count);
          for (int index = 0; index < count; ++index) attempts.add(text(from, ATTEMPT));
          return new Sizes(head, attempts);
        });
  }

  static Data decodeData(ByteBuffer request) throws IOException {
    return decode(
        request,
        DATA,
        from -> {
          Head head = head(from);
          int count = count(from);
          byte isSealed = from.get();
          if (isSealed != 0 && isSealed != 1) throw new Malformed("an unknown seal");
          List<Range> ranges = new ArrayList<>(count);
          long total = 0;
          for (int index = 0; index < count; ++index) {
            Range range = new Range(text(from, ATTEMPT), from.getLong(), from.getInt());
            if (range.offset < 0 || range.length < 0) throw new Malformed("a negative range");
            total += range.length;
            ranges.add(range);
          }
          if (total > Keys.LARGEST_PIECE) throw new Malformed("more than a piece");
          return new Data(head, isSealed == 1, ranges);
        });
  }

  /** What is wrong with a request. */
  private static final class Malformed extends RuntimeException {
    private static final long serialVersionUID = 1;

    Malformed(String text) {
      super(text);
    }
  }

  private static <T> T decode(ByteBuffer request, int method, Function<ByteBuffer, T> body)
      throws IOException {
    try {
      ByteBuffer from = begin(request, method);
      T decoded = body.apply(from);
      if (from.hasRemaining()) throw new IOException("a request is too long");
      return decoded;
    } catch (BufferUnderflowException shorter) {
      throw new IOException("a request is too short");
    } catch (Malformed problem) {
      throw new IOException("a request has " + problem.getMessage());
    }
  }

  private static ByteBuffer begin(ByteBuffer request, int method) throws IOException {
    if (request.remaining() < 2 + MAC_BYTES) throw new IOException("a request is too short");
    ByteBuffer from = request.duplicate().limit(request.limit() - MAC_BYTES);
    int version = from.get();
    if (version != VERSION) throw new IOException("a request has version " + version);
    if (from.get() != method) throw new IOException("a request is for another method");
    return from;
  }

  private static Head head(ByteBuffer from) {
    byte[] session = new byte[SESSION_BYTES];
    from.get(session);
    return new Head(session, from.getLong(), from.getInt());
  }

  private static int count(ByteBuffer from) {
    int count = from.getShort();
    if (count < 1 || count > MOST_OUTPUTS) throw new Malformed(count + " outputs");
    return count;
  }

  private static String text(ByteBuffer from, Pattern pattern) {
    int length = from.getShort();
    if (length < 0 || length > LONGEST_TEXT) throw new Malformed("a text of " + length + " bytes");
    byte[] bytes = new byte[length];
    from.get(bytes);
    String text = new String(bytes, StandardCharsets.US_ASCII);
    if (!pattern.matcher(text).matches()) throw new Malformed("a name that is none");
    return text;
  }

  /** Whether an attempt from {@link #decodeData} or {@link #decodeSizes} belongs to a job. */
  static boolean isOf(String job, String attempt) {
    return attempt.startsWith("_" + job.substring("job_".length()) + "_m_", "attempt".length());
  }

  // ---- Answers ----

  static ByteBuffer encodeSizes(List<Size> sizes) {
    ByteBuffer to = ByteBuffer.allocate(17 * sizes.size());
    for (Size each : sizes) to.putLong(each.raw).putLong(each.part).put((byte) each.directory);
    return to.flip();
  }

  static List<Size> decodeSizes(ByteBuffer answer, int count) throws IOException {
    ByteBuffer from = answer.duplicate();
    if (from.remaining() != 17 * count) throw new IOException("an answer has a wrong length");
    List<Size> sizes = new ArrayList<>(count);
    for (int index = 0; index < count; ++index) {
      Size size = new Size(from.getLong(), from.getLong(), from.get());
      if (size.raw < -1 || size.part < 0) throw new IOException("an answer has a wrong size");
      sizes.add(size);
    }
    return sizes;
  }

  /**
   * The MAC of an answer: it covers the MAC of the request it belongs to, and what the answer says.
   */
  static byte[] sealAnswer(SecretKey key, byte[] requestMac, ByteBuffer... answer) {
    ByteBuffer[] parts = new ByteBuffer[1 + answer.length];
    parts[0] = ByteBuffer.wrap(requestMac);
    for (int index = 0; index < answer.length; ++index)
      parts[1 + index] = answer[index].duplicate();
    return mac(key, parts);
  }

  /**
   * What the MAC of an answer with data covers: the length of the data, and the data if they are
   * sealed.
   */
  static ByteBuffer[] saysOf(boolean isSealed, ByteBuffer data) {
    ByteBuffer length = lengthOf(data.remaining());
    return isSealed ? new ByteBuffer[] {length, data} : new ByteBuffer[] {length};
  }

  /** What an answer with data says in addition to the data. */
  static ByteBuffer lengthOf(long bytes) {
    return ByteBuffer.allocate(8).putLong(0, bytes);
  }

  static boolean isAuthentic(
      SecretKey key, byte[] requestMac, ByteBuffer mac, ByteBuffer... answer) {
    byte[] sent = new byte[mac.remaining()];
    mac.duplicate().get(sent);
    return MessageDigest.isEqual(sent, sealAnswer(key, requestMac, answer));
  }

  private static byte[] mac(SecretKey key, ByteBuffer... parts) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(key);
      for (ByteBuffer part : parts) mac.update(part);
      return mac.doFinal();
    } catch (GeneralSecurityException impossible) {
      throw new IllegalStateException("every JVM has HmacSHA256", impossible);
    }
  }
}
