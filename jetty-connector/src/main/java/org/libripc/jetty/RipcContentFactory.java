// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import org.eclipse.jetty.http.content.CachingHttpContentFactory;
import org.eclipse.jetty.http.content.HttpContent;
import org.eclipse.jetty.http.content.ResourceHttpContent;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.io.EndPoint;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.util.Callback;

/**
 * Sends static files from where they lie, and lets the answer's writer go on at once. It wraps the
 * factory from which a {@code ResourceHandler} takes its content.
 *
 * <pre>{@code
 * new ResourceHandler() {
 *   protected HttpContent.Factory newHttpContentFactory(ByteBufferPool.Sized pool) {
 *     return new RipcContentFactory(super.newHttpContentFactory(pool));
 *   }
 * }
 * }</pre>
 *
 * <p>A file that Jetty has in its cache, in memory of a {@link RipcByteBufferPool}, is sent from
 * there. A file that is not in the cache is read into leased memory and sent from there. It is read
 * in pieces of at most 256 KiB and at most a quarter of the connection's window, each while the
 * client takes the one before. The same holds for large direct buffers that are not leased, such as
 * mapped files, when any other kind of content writes them. Each answer leases at most the window
 * and one piece for this. All other content, and all content over other connectors than {@link
 * RipcConnector}, is written as without this factory.
 *
 * <p>Any thread.
 */
public final class RipcContentFactory implements HttpContent.Factory {
  /** Has access to the type of cached content. */
  private abstract static class Cache extends CachingHttpContentFactory {
    private Cache() {
      super(null, null);
    }

    static boolean isFilledWith(HttpContent content) {
      return content instanceof CachingHttpContent;
    }
  }

  private final HttpContent.Factory factory;

  /** Wraps another factory. */
  public RipcContentFactory(HttpContent.Factory factory) {
    this.factory = factory;
  }

  @Override
  public HttpContent getContent(String path) throws IOException {
    HttpContent content = factory.getContent(path);
    if (content == null) return null;
    if (Cache.isFilledWith(content)) return new Written(content, RipcContentFactory::writeCached);
    Path file = fileOf(content);
    return file == null
        ? new Written(content, RipcContentFactory::writeOther)
        : new Read(content, file);
  }

  /** The file whose bytes the content writes as they are; null if it may write something else. */
  private static Path fileOf(HttpContent content) {
    return content.getClass() == ResourceHttpContent.class ? content.getResource().getPath() : null;
  }

  /** Null if the sink belongs to another connector. */
  private static RipcEndPoint endPointOf(Content.Sink sink) {
    if (!(sink instanceof Response response)) return null;
    EndPoint endPoint = response.getRequest().getConnectionMetaData().getConnection().getEndPoint();
    return endPoint instanceof RipcEndPoint ripc ? ripc : null;
  }

  private static boolean isLeased(RipcEndPoint endPoint, ByteBuffer buffer) {
    return endPoint.getTransport().ripc().isLeased(buffer);
  }

  // Content that has dropped out of the cache meanwhile is read piece by piece into one buffer,
  // which belongs to the writer until the last piece.
  private static void writeCached(
      RipcEndPoint endPoint, Content.Sink sink, boolean last, ByteBuffer buffer, Callback done) {
    boolean given = last && buffer != null && isLeased(endPoint, buffer);
    if (given) endPoint.stream().give(buffer);
    sink.write(
        last, buffer, given ? Callback.from(() -> endPoint.stream().give(null), done) : done);
  }

  // Mapped files are written as large buffers. They could not be sent from there without another
  // copy by the kernel.
  private static void writeOther(
      RipcEndPoint endPoint, Content.Sink sink, boolean last, ByteBuffer buffer, Callback done) {
    boolean mapped =
        buffer != null
            && buffer.isDirect()
            && buffer.remaining() > endPoint.stream().options().shortLimit()
            && !isLeased(endPoint, buffer);
    if (mapped) {
      FilePieces.write(buffer, endPoint, sink, last, done);
    } else {
      sink.write(last, buffer, done);
    }
  }

  private interface Writer {
    void write(
        RipcEndPoint endPoint, Content.Sink sink, boolean last, ByteBuffer buffer, Callback done);
  }

  /** Content that Jetty or an application writes by itself. */
  private static final class Written extends HttpContent.Wrapper {
    private final Writer writer;

    Written(HttpContent content, Writer writer) {
      super(content);
      this.writer = writer;
    }

    @Override
    public void writeTo(Content.Sink sink, long offset, long length, Callback callback) {
      RipcEndPoint endPoint = endPointOf(sink);
      Content.Sink to =
          endPoint == null
              ? sink
              : (last, buffer, done) -> writer.write(endPoint, sink, last, buffer, done);
      super.writeTo(to, offset, length, callback);
    }
  }

  private static final class Read extends HttpContent.Wrapper {
    private final Path file;

    Read(HttpContent content, Path file) {
      super(content);
      this.file = file;
    }

    @Override
    public void writeTo(Content.Sink sink, long offset, long length, Callback callback) {
      RipcEndPoint endPoint = endPointOf(sink);
      if (endPoint == null) {
        super.writeTo(sink, offset, length, callback);
        return;
      }
      try {
        FilePieces.write(file, endPoint, sink, offset, length, callback);
      } catch (Throwable problem) {
        callback.failed(problem);
      }
    }
  }
}
