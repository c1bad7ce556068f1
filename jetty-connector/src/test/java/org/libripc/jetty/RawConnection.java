// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.eclipse.jetty.util.BufferUtil;
import org.eclipse.jetty.util.Callback;

/** A blocking connection over which a test sends and receives bytes. */
interface RawConnection extends Closeable {
  String HEAD_END = "\r\n\r\n";

  /** Writes the bytes, in one write if the transport has such a thing. */
  void write(ByteBuffer... bytes) throws IOException;

  /** Reads some bytes; returns -1 at the end of the stream. */
  int read(byte[] to) throws IOException;

  /** Ends the stream to the server; the other direction goes on. */
  void shutdownOutput() throws IOException;

  @Override
  void close() throws IOException;

  default void write(String text) throws IOException {
    write(ByteBuffer.wrap(text.getBytes(StandardCharsets.ISO_8859_1)));
  }

  /** Everything until the end of the stream. */
  default String readAll() throws IOException {
    return readUntil("\0none");
  }

  /** Everything up to and with a text, or until the end. */
  default String readUntil(String end) throws IOException {
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    byte[] some = new byte[8192];
    for (int count = read(some); count >= 0; count = read(some)) {
      all.write(some, 0, count);
      if (all.toString(StandardCharsets.ISO_8859_1).contains(end)) break;
    }
    return all.toString(StandardCharsets.ISO_8859_1);
  }

  /**
   * Returns the body of an answer: this many bytes, or up to the end.
   *
   * @param begun what was read of the answer already, with its head
   */
  default byte[] readBody(String begun, int size) throws IOException {
    int start = begun.indexOf(HEAD_END) + HEAD_END.length();
    ByteArrayOutputStream body = new ByteArrayOutputStream();
    body.writeBytes(begun.substring(start).getBytes(StandardCharsets.ISO_8859_1));
    byte[] some = new byte[8192];
    while (body.size() < size) {
      int count = read(some);
      if (count < 0) break;
      body.write(some, 0, count);
    }
    return body.toByteArray();
  }

  /** The body of an answer of which nothing was read yet. */
  default byte[] readBody(int size) throws IOException {
    return readBody(readUntil(HEAD_END), size);
  }

  /** Over TCP. */
  final class Tcp implements RawConnection {
    private final Socket socket;

    Tcp(int port) throws IOException {
      socket = new Socket("127.0.0.1", port);
      socket.setSoTimeout((int) TimeUnit.SECONDS.toMillis(HttpPairTest.LIMIT));
    }

    @Override
    public void write(ByteBuffer... bytes) throws IOException {
      for (ByteBuffer each : bytes) {
        byte[] copy = new byte[each.remaining()];
        each.get(copy);
        socket.getOutputStream().write(copy);
      }
    }

    @Override
    public int read(byte[] to) throws IOException {
      InputStream in = socket.getInputStream();
      return in.read(to);
    }

    @Override
    public void shutdownOutput() throws IOException {
      socket.shutdownOutput();
    }

    @Override
    public void close() throws IOException {
      socket.close();
    }
  }

  /** Over libripc. */
  final class Stream implements RawConnection {
    final RipcEndPoint endPoint;

    Stream(RipcEndPoint endPoint) {
      this.endPoint = endPoint;
      endPoint.onOpen();
    }

    @Override
    public void write(ByteBuffer... bytes) throws IOException {
      Callback.Completable written = new Callback.Completable();
      endPoint.write(written, bytes);
      await(written);
    }

    @Override
    public int read(byte[] to) throws IOException {
      ByteBuffer buffer = BufferUtil.allocateDirect(to.length);
      for (; ; ) {
        Callback.Completable readable = new Callback.Completable();
        int count = endPoint.fill(buffer);
        if (count != 0) {
          if (count > 0) buffer.get(to, 0, count);
          return count;
        }
        endPoint.fillInterested(readable);
        await(readable);
      }
    }

    private static void await(Callback.Completable done) throws IOException {
      try {
        done.get(HttpPairTest.LIMIT, TimeUnit.SECONDS);
      } catch (Exception problem) {
        throw new IOException(problem);
      }
    }

    @Override
    public void shutdownOutput() {
      endPoint.shutdownOutput();
    }

    @Override
    public void close() {
      endPoint.close();
    }
  }
}
