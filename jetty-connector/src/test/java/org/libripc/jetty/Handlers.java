// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.nio.file.Path;
import org.eclipse.jetty.http.content.HttpContent;
import org.eclipse.jetty.http.content.ResourceHttpContentFactory;
import org.eclipse.jetty.io.ByteBufferPool;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.handler.ResourceHandler;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.resource.ResourceFactory;

/** Handlers that tests share. */
final class Handlers {
  interface Body {
    void handle(Request request, Response response, Callback callback) throws Exception;
  }

  /** Which of Jetty's sources files come from: its cache, or a separate read for each. */
  interface Contents {
    HttpContent.Factory of(HttpContent.Factory cached, HttpContent.Factory read);
  }

  private Handlers() {}

  /** Serves the files of a directory. */
  static ResourceHandler files(Path directory, Contents contents) {
    ResourceHandler files =
        new ResourceHandler() {
          @Override
          protected HttpContent.Factory newHttpContentFactory(ByteBufferPool.Sized pool) {
            return contents.of(
                super.newHttpContentFactory(pool),
                new ResourceHttpContentFactory(getBaseResource(), getMimeTypes(), pool));
          }
        };
    files.setBaseResource(ResourceFactory.root().newResource(directory));
    return files;
  }

  /** Answers with nothing, and does not block. */
  static Handler ok() {
    return new Handler.Abstract.NonBlocking() {
      @Override
      public boolean handle(Request request, Response response, Callback callback) {
        callback.succeeded();
        return true;
      }
    };
  }

  static Handler handler(Body body) {
    return new Handler.Abstract() {
      @Override
      public boolean handle(Request request, Response response, Callback callback)
          throws Exception {
        body.handle(request, response, callback);
        return true;
      }
    };
  }

  /** Answers with the path that was asked for. */
  static Handler path() {
    return handler(
        (request, response, callback) ->
            Content.Sink.write(response, true, request.getHttpURI().getPath(), callback));
  }
}
