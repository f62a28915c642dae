ALTER TABLE orders ADD CONSTRAINT orders_user_fk FOREIGN KEY (user_id) REFERENCES users;
ALTER TABLE order_items ADD CONSTRAINT order_items_product_fk FOREIGN KEY (product_id) REFERENCES products;
ALTER TABLE order_items ADD CONSTRAINT order_items_order_fk FOREIGN KEY (order_id) REFERENCES orders
  ON UPDATE CASCADE ON DELETE CASCADE;
ALTER TABLE page_words ADD CONSTRAINT page_words_user_fk FOREIGN KEY (user_id) REFERENCES users;

-- A cascade looks its items up by order.
CREATE INDEX order_items_order ON order_items (order_id);

ANALYZE users, products, orders, order_items, page_words;
