package headrace;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;

/** Delta's log in S3: a commit is put where there is none of its version, or fails, whoever else commits. */
public class ConditionalLogStore extends HadoopFileSystemLogStore {
  public ConditionalLogStore(Configuration conf) {
    super(conf);
  }

  public void write(Path path, Iterator actions, Boolean overwrite, Configuration conf) throws IOException {
    FileSystem store = path.getFileSystem(conf);
    FSDataOutputStreamBuilder builder = store.createFile(path);
    builder.overwrite(true); // the store itself looks for what is there, as it takes the object
    if (!overwrite.booleanValue()) {
      builder.must("fs.option.create.conditional.overwrite", true);
    }
    try {
      FSDataOutputStream out = (FSDataOutputStream) builder.build();
      while (actions.hasNext()) {
        out.write((((String) actions.next()) + "\n").getBytes(StandardCharsets.UTF_8));
      }
      out.close();
    } catch (RemoteFileChangedException lost) {
      FileAlreadyExistsException exists = new FileAlreadyExistsException(path.toString());
      exists.initCause(lost);
      throw exists;
    }
  }

  public Boolean isPartialWriteVisible(Path path, Configuration conf) {
    return Boolean.FALSE;
  }
}
